// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

TEST(TiresiasTest, JobsWithMuchServiceGiveWay) {
  // The first has had 3,250 GPU seconds at 1625: the second runs until 2625. The third and fourth,
  // which are new, run before it too; it runs again from 2675 to 2700, and from 2710 on.
  EXPECT_EQ(
      ends_by("tiresias", 2,
              {job_of(0, 2, 4000), job_of(100, 2, 1000), job_of(2000, 1, 50), job_of(2700, 1, 10)}),
      (std::vector<double>{5060, 2625, 2675, 2710}));
}

TEST(TiresiasTest, JobsOfTheSameQueueDoNotPreemptEachOther) {
  EXPECT_EQ(ends_by("tiresias", 1, {job_of(0, 1, 3000), job_of(1, 1, 10), job_of(2, 1, 20)}),
            (std::vector<double>{3000, 3010, 3030}));
}

TEST(TiresiasTest, AJobMayHaveGpusOfSeveralServers) {
  const Fleet fleet = Fleet::uniform(2, 2).value();
  const std::vector<Job> jobs{job_of(0, 1, 10), job_of(0, 1, 10), job_of(0, 2, 10)};
  const auto tiresias = find_policy("tiresias").value()->make({});
  EXPECT_EQ(ends_of(simulate(fleet, jobs, *tiresias).value()), (std::vector<double>{10, 10, 10}));
}

}  // namespace
}  // namespace gpemu::scheduling
