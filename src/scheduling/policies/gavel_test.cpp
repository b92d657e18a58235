// SPDX-License-Identifier: Apache-2.0
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

TEST(GavelTest, MaxMinGivesEachKindToThoseWhoUseIt) {
  // The fast kind for 0.4 of the time to the first two, and for 0.1 to the others, which have the
  // slow one for 0.5. 0 and 720: the first and the third; 360 and 1080: the second and the fourth.
  // 1440: on the fast one, the third has had nothing, and the first 720 s, twice 0.4 of all.
  // 1800: the same for the fourth. 2160: the second and the third have ended.
  const std::vector<Job> jobs{job_on(1000, 3000), job_on(720, 2160), job_on(1440, 1440),
                              job_on(1800, 1800)};
  EXPECT_EQ(ends_on(machines(1, 1), "gavel-max-min", jobs),
            (std::vector<double>{2440, 1440, 2160, 2520}));
}

TEST(GavelTest, BlindMaxMinGivesAllTheSame) {
  // The first two change places after a round, as do the others. 690: the first has 110 s left at
  // 360, which take 330.
  const std::vector<Job> jobs{job_on(470, 1410), job_on(480, 1440), job_on(720, 720),
                              job_on(720, 720)};
  EXPECT_EQ(ends_on(machines(1, 1), "max-min", jobs), (std::vector<double>{690, 720, 1440, 1440}));
}

TEST(GavelTest, MakespanLetsAllEndTogether) {
  // In 1,080 s, the fast kind has 720 s for each of the first two, which cannot run on the slow
  // one, and 360 s for each of the others, in the second round.
  const std::vector<Job> jobs{job_on(720, kNever), job_on(720, kNever), job_on(720, 1440),
                              job_on(720, 1440)};
  EXPECT_EQ(ends_on(machines(2, 2), "gavel-makespan", jobs),
            (std::vector<double>{1080, 1080, 1080, 1080}));
}

TEST(GavelTest, FifoWaitsForTheNextFractions) {
  // The second does not get the fast one at 400, when that is free, but after 1,920 s at the next
  // round: 2160. It has done 0.36 of its work. The last one has to wait as long again.
  const std::vector<Job> jobs{job_on(400, 800), job_on(3000, 6000), job_on(400, 800),
                              job_on(400, 800)};
  EXPECT_EQ(ends_on(machines(1, 1), "gavel-fifo", jobs),
            (std::vector<double>{400, 4080, 2960, 4480}));
}

TEST(GavelTest, AJobHasGpusOfOneKind) {
  const Fleet fleet = Fleet::create({{.name = "a", .gpu = "fast", .gpus = 2},
                                     {.name = "b", .gpu = "slow", .gpus = 4}})
                          .value();
  std::vector<Job> jobs{job_on(100, 200), job_on(100, 200), job_on(100, 100), job_on(100, 200)};
  jobs[0].demand.gpus = 4;
  jobs[1].demand.gpus = 2;
  jobs[2].demand.gpus = 2;
  // Only the slow server has four GPUs. The third waits for two until all have ended, and the last
  // one does not overtake it.
  EXPECT_EQ(ends_on(fleet, "gavel-fifo", jobs), (std::vector<double>{200, 100, 300, 400}));
  EXPECT_TRUE(check_policy(*find_policy("gavel-fifo").value(), fleet, jobs));
  jobs[0].demand.gpus = 5;
  EXPECT_FALSE(check_policy(*find_policy("gavel-fifo").value(), fleet, jobs));
  EXPECT_TRUE(check_policy(*find_policy("fifo").value(), fleet, jobs));
}

}  // namespace
}  // namespace gpemu::scheduling
