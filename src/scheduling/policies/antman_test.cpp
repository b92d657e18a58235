// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

Job opportunistic_job(double arrival_s, std::uint32_t gpus, double work_s) {
  Job job = job_of(arrival_s, gpus, work_s);
  job.opportunistic = true;
  return job;
}

TEST(AntManTest, JobsKeepGpusForWhichTheyWaitAndOthersRunBesideThem) {
  // The opportunistic job has the other GPU. At 1, the third keeps that one and waits for the
  // first, which the fourth must not overtake. From 10 to 14, it runs, and what runs beside it is
  // half as fast.
  EXPECT_EQ(
      ends_by("antman", 2,
              {job_of(0, 1, 10), opportunistic_job(0, 1, 12), job_of(1, 2, 4), job_of(2, 1, 1)}),
      (std::vector<double>{10, 14, 14, 15}));
}

TEST(AntManTest, OneOpportunisticJobRunsOnAGpu) {
  // The last job has both GPUs from 2 to 6. Beside it, the first needs 2 s for its last one, and
  // the second does one of its two.
  EXPECT_EQ(ends_by("antman", 2,
                    {opportunistic_job(0, 2, 3), opportunistic_job(0, 2, 2),
                     opportunistic_job(1, 1, 2), job_of(2, 2, 4)}),
            (std::vector<double>{4, 7, 9, 6}));
}

TEST(AntManTest, JobsThatWaitForEachOthersGpusGiveThemBack) {
  // At 1 and 2, the third and the fourth keep a GPU each of the only server.
  EXPECT_EQ(ends_by("antman", 4,
                    {job_of(0, 2, 5), job_of(0, 2, 6), job_of(1, 4, 1), job_of(2, 4, 2),
                     job_of(3, 1, 1)}),
            (std::vector<double>{5, 6, 7, 9, 10}));
}

TEST(AntManTest, AWideJobKeepsServersUntilOthersAreFree) {
  const Fleet fleet = Fleet::uniform(2, 2).value();
  // The second has the first server that is free, at 0, and waits for the other one.
  const std::vector<Job> jobs{job_of(0, 1, 4), job_of(0, 4, 3), job_of(1, 1, 2)};
  const auto antman = find_policy("antman").value()->make({});
  EXPECT_EQ(ends_of(simulate(fleet, jobs, *antman).value()), (std::vector<double>{4, 7, 3}));
}

}  // namespace
}  // namespace gpemu::scheduling
