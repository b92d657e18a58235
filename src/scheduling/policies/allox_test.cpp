// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "random_draws.hpp"
#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

/// Returns the least sum of completion times, by trying each machine for each job. On a machine,
/// the shortest job comes first.
double least_sum_of(const Fleet& fleet, const std::vector<Job>& jobs,
                    std::vector<std::vector<double>>& times, std::size_t job) {
  if (job == jobs.size()) {
    double sum = 0;
    for (std::vector<double> machine : times) {
      std::ranges::sort(machine);
      double end = 0;
      for (const double time : machine) sum += end += time;
    }
    return sum;
  }
  double best = kNever;
  for (std::uint32_t machine = 0; machine < times.size(); ++machine) {
    times[machine].push_back(jobs[job].iterations *
                             jobs[job].iteration_s_on(fleet.kind_of(machine)));
    best = std::min(best, least_sum_of(fleet, jobs, times, job + 1));
    times[machine].pop_back();
  }
  return best;
}

TEST(AlloxTest, HasTheLeastAverageOf2000SmallInstances) {
  RandomDraws draw(3);
  for (int instance = 0; instance < instances(2000); ++instance) {
    const Fleet fleet = machines(1, 1 + draw(2));
    std::vector<Job> jobs;
    for (std::size_t i = 0; i < 2 + draw(4); ++i) {
      jobs.push_back(job_on(static_cast<double>(1 + draw(20)), static_cast<double>(1 + draw(40))));
    }
    const std::vector<double> ends = ends_on(fleet, "allox", jobs);
    std::vector<std::vector<double>> times(fleet.servers().size());
    ASSERT_NEAR(std::accumulate(ends.begin(), ends.end(), 0.0), least_sum_of(fleet, jobs, times, 0),
                1e-4);
  }
}

TEST(AlloxTest, UsersThatHaveLessComeFirst) {
  // Half of the users are matched: of two with nothing, the first, also at 5.
  EXPECT_EQ(ends_on(machines(1, 0), "allox", {job_on(5, 9, 0), job_on(2, 9, 1), job_on(6, 9, 0)}),
            (std::vector<double>{5, 13, 11}));
}

TEST(DrfTest, JobsWaitForTheirFastestKind) {
  const std::vector<Job> jobs{job_on(4, 5, 0), job_on(1, 2, 0), job_on(3, 9, 1), job_on(2, 9, 1)};
  // The fast one serves user 0, then both users have nothing, and so on.
  EXPECT_EQ(ends_on(machines(1, 2), "drf-fifo", jobs), (std::vector<double>{4, 5, 8, 10}));
  EXPECT_EQ(ends_on(machines(1, 2), "drf-sjf", jobs), (std::vector<double>{5, 1, 10, 7}));
}

TEST(DrfTest, TheUserWithTheLeastShareComesFirst) {
  EXPECT_EQ(ends_on(machines(2, 0), "drf-fifo",
                    {job_on(4, 5, 0), job_on(1, 2, 0), job_on(3, 9, 1), job_on(2, 9, 1)}),
            (std::vector<double>{4, 5, 3, 5}));
}

TEST(EqualShareTest, UsesAllKinds) {
  // User 0 gets the fast one for its shortest job, and the slow one, of which nobody has any, for
  // the other. Then the fast one serves user 1.
  EXPECT_EQ(ends_on(machines(1, 1), "equal-share",
                    {job_on(4, 5, 0), job_on(1, 2, 0), job_on(3, 9, 1), job_on(2, 4, 1)}),
            (std::vector<double>{5, 1, 6, 3}));
}

}  // namespace
}  // namespace gpemu::scheduling
