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

TEST(MuriTest, JobsThatOnlySlowEachOtherDownTakeTurns) {
  const Stages computes{0, 4, 0};
  EXPECT_EQ(ends_by("muri-s", 1, {staged_job(0, 1, computes), staged_job(0, 1, computes)}),
            (std::vector<double>{400, 800}));
}

TEST(MuriTest, JobsWithoutStagesShareNothing) {
  EXPECT_EQ(ends_by("muri-s", 1, {job_of(0, 1, 5), job_of(0, 1, 3), job_of(1, 1, 1)}),
            (std::vector<double>{9, 4, 2}));
}

}  // namespace
}  // namespace gpemu::scheduling
