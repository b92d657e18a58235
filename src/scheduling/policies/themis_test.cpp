// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <gtest/gtest.h>

#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

TEST(ThemisTest, JobsThatSharingSlowsDownMoreComeFirst) {
  // 360: the second has not run. 720: both have had 360 s; of the first, 640 s of 1,000 s are left,
  // of the second, 40 s of 400 s. They arrived 720 and 710 s ago. 720 + 640 / 0.5085 is 1.9785
  // times 1,000, and 710 + 40 / 0.4915 1.9785 times 400: the first has the greater share. 1080: the
  // shares are 0.163 and 0.837.
  EXPECT_EQ(ends_by("themis", 1, {job_of(0, 1, 1000), job_of(10, 1, 400)}),
            (std::vector<double>{1400, 1120}));
}

/// The shares are those of a program that finds them by halves.
TEST(ThemisTest, SharesCountAgainstTheTimeThatAJobHadItsGpus) {
  // 360: the first has had 360 s. Of the others, those whose shares are 0.69, 0.69 and 0.43 run,
  // whose 4 GPUs are all. 660: the latter ends; the one with 0.52 fits in its place. 720: the one
  // that has not run comes first. Beside it, one with 0.78 / 360 s fits, and not one with
  // 0.50 / 60 s, which comes before it but needs 2 GPUs, nor one with 0.77 / 360 s.
  EXPECT_EQ(ends_by("themis", 4,
                    {job_of(0, 4, 700), job_of(30, 1, 2000), job_of(60, 2, 700), job_of(90, 2, 300),
                     job_of(120, 1, 1500), job_of(150, 3, 500)}),
            (std::vector<double>{2500, 2840, 1720, 660, 2560, 1940}));
}

}  // namespace
}  // namespace gpemu::scheduling
