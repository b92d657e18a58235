// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gpemu/scheduling/interleaving.hpp"

#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

/// A job of 100 iterations of 4 s.
Job staged_job(double arrival_s, std::uint32_t gpus, const Stages& stages) {
  Job job = job_of(arrival_s, gpus, 100);
  job.iteration_s = 4;
  job.stages_s = stages;
  return job;
}

constexpr Stages kReads{3, 1, 0};
constexpr Stages kComputes{1, 3, 0};

TEST(MuriTest, JobsThatComplementEachOtherShareAGpu) {
  // Two slots of 3 and 1 s, or of both jobs' reading and computing: an iteration of both takes
  // max(3, 3) + max(1, 1) s and a third more.
  const double iteration_s = 4 * 1.33 / 1.015;
  const std::vector<double> ends =
      ends_by("muri-s", 1, {staged_job(0, 1, kReads), staged_job(0, 1, kComputes)});
  EXPECT_DOUBLE_EQ(ends[0], 100 * iteration_s);
  EXPECT_DOUBLE_EQ(ends[1], 100 * iteration_s);
}

TEST(MuriTest, NobodySharesWhileThereAreGpusForAll) {
  for (const char* policy : {"muri-s", "muri-l"}) {
    EXPECT_EQ(ends_by(policy, 2, {staged_job(0, 1, kReads), staged_job(0, 1, kComputes)}),
              (std::vector<double>{400, 400}));
  }
}

TEST(MuriTest, OfFourJobsTheOnesThatComplementEachOtherArePaired) {
  // Two that read together would take 4 + 2 s, as would two that compute.
  const std::vector<double> ends =
      ends_by("muri-s", 2,
              {staged_job(0, 1, kReads), staged_job(0, 1, kReads), staged_job(0, 1, kComputes),
               staged_job(0, 1, kComputes)});
  for (const double end_s : ends) EXPECT_DOUBLE_EQ(end_s, 100 * 4 * 1.33 / 1.015);
}

TEST(MuriTest, JobsThatOnlySlowEachOtherDownAreSplitOnlyIfWanted) {
  const Stages computes{0, 4, 0};
  const std::vector<Job> jobs{staged_job(0, 1, computes), staged_job(0, 1, computes)};
  EXPECT_EQ(ends_by("muri-s-split", 1, jobs), (std::vector<double>{400, 800}));
  const std::vector<double> ends = ends_by("muri-s", 1, jobs);
  EXPECT_DOUBLE_EQ(ends[0], 100 * 8 * 1.33 / 1.015);
  EXPECT_DOUBLE_EQ(ends[1], 100 * 8 * 1.33 / 1.015);
}

TEST(MuriTest, AJobThatNeverRanCountsWithItsStatedTime) {
  std::vector<Job> jobs{job_of(0, 1, 5), job_of(0, 1, 6)};
  jobs[1].stated_s = 4;
  // The second is first, because it is said to need 4 s. At 1, it needs 5 more, the new one 4.5.
  jobs.push_back(job_of(1, 1, 4.5));
  EXPECT_EQ(ends_by("muri-s", 1, jobs), (std::vector<double>{15.5, 10.5, 5.5}));
}

TEST(MuriTest, JobsWithoutStagesShareNothing) {
  EXPECT_EQ(ends_by("muri-s", 1, {job_of(0, 1, 5), job_of(0, 1, 3), job_of(1, 1, 1)}),
            (std::vector<double>{9, 4, 2}));
}

}  // namespace
}  // namespace gpemu::scheduling
