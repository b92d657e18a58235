// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

TEST(EasyTest, AJobOvertakesIfItEndsBeforeTheFirstOneStarts) {
  // The second needs all GPUs, at 10. The third ends by then, the fourth would not.
  EXPECT_EQ(
      ends_by("easy", 4, {job_of(0, 2, 10), job_of(1, 4, 5), job_of(2, 1, 8), job_of(2, 1, 9)}),
      (std::vector<double>{10, 15, 10, 24}));
}

TEST(EasyTest, AJobOvertakesOnGpusThatTheFirstOneDoesNotGet) {
  EXPECT_EQ(ends_by("easy", 4, {job_of(0, 3, 10), job_of(1, 3, 5), job_of(2, 1, 100)}),
            (std::vector<double>{10, 15, 102}));
  EXPECT_EQ(ends_by("fifo", 4, {job_of(0, 3, 10), job_of(1, 3, 5), job_of(2, 1, 100)}),
            (std::vector<double>{10, 15, 110}));
}

TEST(BackfillTest, EasyMayDelayTheSecondOneAndConservativeDoesNot) {
  const std::vector<Job> jobs{job_of(0, 3, 10), job_of(0, 2, 10), job_of(0, 4, 5),
                              job_of(0, 1, 100)};
  EXPECT_EQ(ends_by("easy", 4, jobs), (std::vector<double>{10, 20, 105, 100}));
  EXPECT_EQ(ends_by("conservative", 4, jobs), (std::vector<double>{10, 20, 25, 125}));
}

TEST(BackfillTest, AShortJobFitsBetweenReservations) {
  // The second has GPUs 0 to 2 from 10 to 15. The third needs two, for 4 s: not before 15; the
  // fourth needs one, for 10 s.
  EXPECT_EQ(ends_by("conservative", 4,
                    {job_of(0, 3, 10), job_of(0, 3, 5), job_of(0, 2, 4), job_of(0, 1, 10)}),
            (std::vector<double>{10, 15, 19, 10}));
}

TEST(SjfTest, TheShortestJobIsNextAndNoneIsPreempted) {
  EXPECT_EQ(ends_by("sjf", 1, {job_of(0, 1, 5), job_of(1, 1, 3), job_of(1, 1, 1)}),
            (std::vector<double>{5, 9, 6}));
  // The second does not fit; a longer one does.
  EXPECT_EQ(ends_by("sjf", 2, {job_of(0, 1, 5), job_of(0, 2, 6), job_of(0, 1, 9)}),
            (std::vector<double>{5, 15, 9}));
}

}  // namespace
}  // namespace gpemu::scheduling
