// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/schedule_metrics.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/scheduling/registry.hpp"
#include "gpemu/scheduling/simulator.hpp"

#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

double figure(std::string_view name, const ScheduleMetrics& metrics) {
  return std::ranges::find(schedule_figures(), name, &ScheduleFigure::name)->of(metrics);
}

TEST(ScheduleMetricsTest, FiguresAreInTheirUnits) {
  ScheduleMetrics metrics;
  metrics.average_jct_s = 7;
  metrics.average_wait_s = 2;
  metrics.utilization = 0.25;
  EXPECT_EQ(figure("average_jct_s", metrics), 7);
  EXPECT_EQ(figure("average_run_s", metrics), 5);
  EXPECT_EQ(figure("held_percent", metrics), 25);
}

TEST(ScheduleMetricsTest, FiguresHaveDifferentNamesAndTitles) {
  std::set<std::string_view> names;
  std::set<std::string_view> titles;
  for (const ScheduleFigure& each : schedule_figures()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    const bool is_new = each.title.empty() || titles.insert(each.title).second;
    EXPECT_TRUE(is_new) << each.title;
    const bool in_seconds = each.name.ends_with("_s");
    EXPECT_EQ(in_seconds, each.unit == "s") << each.name;
  }
}

TEST(ScheduleMetricsTest, SaysOnWhichEvidenceTimesRest) {
  const auto profile = [](const char* evidence) {
    SpeedProfile known;
    known.by_kind = {2};
    known.evidence = evidence;
    return std::make_shared<const SpeedProfile>(std::move(known));
  };
  std::vector<Job> jobs{job_of(0, 1, 40), job_of(0, 1, 20), job_of(0, 1, 60)};
  jobs[1].speed = profile("");
  jobs[2].speed = profile("measured step");
  const Fleet fleet = Fleet::uniform(3, 1).value();
  const auto fifo = find_policy("fifo").value()->make({});
  const std::vector<EvidenceShare> shares = evidence_of(jobs, simulate(fleet, jobs, *fifo).value());
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_EQ(shares[0].evidence, "stated durations");
  EXPECT_DOUBLE_EQ(shares[0].share, 0.5);
  EXPECT_EQ(shares[1].evidence, "measured step");
  EXPECT_DOUBLE_EQ(shares[1].share, 0.375);
  EXPECT_EQ(shares[2].evidence, "stated speeds");
  EXPECT_DOUBLE_EQ(shares[2].share, 0.125);
}

}  // namespace
}  // namespace gpemu::scheduling
