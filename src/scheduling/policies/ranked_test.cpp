// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

TEST(SrtfTest, ShorterJobsPreemptLongerOnes) {
  // 0: the second has both GPUs. 1: the third has one; the second does not fit beside it, the first
  // does. 3: the second again, until 6. Then the first, beside the fourth.
  EXPECT_EQ(
      ends_by("srtf", 2, {job_of(0, 1, 10), job_of(0, 2, 4), job_of(1, 1, 2), job_of(6, 1, 1)}),
      (std::vector<double>{14, 6, 3, 7}));
}

TEST(SrsfTest, TheTimeCountsForEachGpu) {
  // 0: the first is to get 6 s, the second 2 x 4 s, which waits; the third runs beside the first.
  // 7: the second is to get 2 x 3 s, less than the fourth.
  EXPECT_EQ(
      ends_by("srsf", 2, {job_of(0, 1, 6), job_of(0, 2, 4), job_of(1, 1, 3), job_of(7, 1, 7)}),
      (std::vector<double>{6, 10, 4, 17}));
}

TEST(RankedPolicyTest, TheFirstOfEqualJobsRunsFirst) {
  EXPECT_EQ(ends_by("srtf", 1, {job_of(0, 1, 3), job_of(0, 1, 3), job_of(0, 1, 3)}),
            (std::vector<double>{3, 6, 9}));
}

TEST(RankedPolicyTest, RunningJobsDoNotMoveIfOthersFitBesideThem) {
  // The first leaves GPU 0 at 2. The second stays on GPU 1, and pays no restart.
  EXPECT_EQ(ends_by("srtf", 2, {job_of(0, 1, 1, 1), job_of(0, 1, 9, 1), job_of(2, 1, 20, 1)},
                    Accounting::kChange),
            (std::vector<double>{2, 10, 23}));
}

TEST(RankedPolicyTest, RunningJobsMoveIfAJobWouldNotFitOtherwise) {
  const Fleet fleet = Fleet::uniform(2, 2).value();
  // The first two are on one server, the next two on the other. At 7, each server has one left, and
  // the last job needs two GPUs of one.
  const std::vector<Job> jobs{job_of(0, 1, 5, 1), job_of(0, 1, 20, 1), job_of(1, 1, 1, 1),
                              job_of(1, 1, 30, 1), job_of(7, 2, 5, 1)};
  const auto srtf = find_policy("srtf").value()->make({});
  const SimulationResult result = simulate(fleet, jobs, *srtf).value();
  EXPECT_EQ(result.jobs[4].first_start_s, 7);
  EXPECT_EQ(result.jobs[1].moves + result.jobs[3].moves, 1U);
}

}  // namespace
}  // namespace gpemu::scheduling
