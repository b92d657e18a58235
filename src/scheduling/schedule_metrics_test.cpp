// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/schedule_metrics.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace gpemu::scheduling
