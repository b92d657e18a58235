// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/scheduling/registry.hpp"
#include "gpemu/scheduling/simulator.hpp"

#include "random_draws.hpp"
#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

std::vector<double> last_two(const std::vector<double>& ends) {
  return {ends.end() - 2, ends.end()};
}

TEST(LasTest, JobsWithLessServiceComeFirstInTheNextRound) {
  // 300: the second has had nothing. 500: it ends, and the first goes on before the round ends.
  EXPECT_EQ(ends_by("las", 1, {job_of(0, 1, 1000), job_of(100, 1, 200)}),
            (std::vector<double>{1200, 500}));
}

TEST(LasTest, GpusCount) {
  // 300: the first has had 600 s, the second 300 s; with the third, two of them fit.
  EXPECT_EQ(ends_by("las", 3, {job_of(0, 2, 400), job_of(0, 1, 400), job_of(1, 2, 100)}),
            (std::vector<double>{500, 400, 400}));
}

/// 60 jobs that come for two GPUs: rounds of another length change what happens.
TEST(RoundsTest, TheirLengthHasAnEffectOnThePoliciesThatSayItAndOnNoOthers) {
  const Fleet fleet = Fleet::uniform(2, 1).value();
  RandomDraws draw(7);
  std::vector<Job> jobs;
  for (int i = 0; i < 60; ++i) jobs.push_back(job_of(100 * i, 1, static_cast<double>(draw(900))));
  for (Job& job : jobs) job.iterations += 1;
  for (const PolicyEntry& policy : policies()) {
    if (!check_policy(policy, fleet, jobs)) continue;
    const auto ends = [&](std::optional<double> round_s) {
      const auto made = policy.make({.round_s = round_s});
      return ends_of(simulate(fleet, jobs, *made).value());
    };
    EXPECT_EQ(ends({}) != ends(7), policy.has_rounds) << policy.name;
  }
  const std::array fifo{find_policy("fifo").value()};
  EXPECT_TRUE(check_settings(fifo, {}));
  EXPECT_NE(check_settings(fifo, {.round_s = 1}).error().message.find("gittins, las,"),
            std::string::npos);
}

TEST(GittinsTest, AJobThatIsLikelyToEndSoonComesFirst) {
  // Half of the jobs need 10 s, the others 1,000 s.
  std::vector<Job> jobs(25, job_of(0, 1, 10));
  jobs.resize(50, job_of(0, 1, 1000));
  jobs.push_back(job_of(26100, 1, 980));
  jobs.push_back(job_of(26500, 1, 350));
  // 26,700: the last one, which is new, may need 10 s alone. 27,000: it has had 300 s, so that it
  // will need 700 more, and the other one, which has had 600 s, 400.
  EXPECT_EQ(last_two(ends_by("gittins", 1, jobs)), (std::vector<double>{27380, 27430}));
  EXPECT_EQ(last_two(ends_by("las", 1, jobs)), (std::vector<double>{27430, 27050}));
}

}  // namespace
}  // namespace gpemu::scheduling
