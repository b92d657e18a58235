// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/fragmentation.hpp"

#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "placements/place_demands.hpp"

namespace gpemu::scheduling {
namespace {

/// Two GPUs: of one half is free, the other is free. In turn: a half GPU can use all; a whole GPU
/// all but the half one; two GPUs, and one beside more cores than there are, nothing; so can a
/// demand without GPUs, and one for other GPUs.
TEST(FragmentationTest, IsWhatDemandsCannotUse) {
  ServerRoom room{.kind = 1, .millicores = 4000, .gpus = 2, .shares = {500, 1000}};
  const auto of = [&](const Demand& demand) {
    const std::array typical{TypicalDemand{demand, 1}};
    return Fragmentation(typical).of(room);
  };
  EXPECT_EQ(of(share_of_gpu(500)), 0);
  EXPECT_EQ(of(whole_gpus(1, 4)), 500);
  EXPECT_EQ(of(whole_gpus(2)), 1500);
  EXPECT_EQ(of(whole_gpus(1, 5)), 1500);
  EXPECT_EQ(of(whole_gpus(0, 1)), 1500);
  Demand elsewhere = whole_gpus(1);
  elsewhere.kinds = 2;
  EXPECT_EQ(of(elsewhere), 1500);
}

Job job_like(const Demand& demand) {
  Job job;
  job.demand = demand;
  return job;
}

/// Nine demands in ten are covered by the two most frequent ones, which come first; memory makes no
/// difference.
TEST(FragmentationTest, TypicalDemandsAreTheMostFrequentOnes) {
  const Fleet fleet = Fleet::uniform(1, 8).value();
  std::vector<Job> jobs(6, job_like(whole_gpus(1)));
  jobs[2].demand.host.memory_mib = 5;
  for (int i = 0; i < 3; ++i) jobs.push_back(job_like(share_of_gpu(300)));
  jobs.push_back(job_like(whole_gpus(8)));
  const std::vector<TypicalDemand> typical = typical_demands(fleet, jobs, 90);
  ASSERT_EQ(typical.size(), 2U);
  EXPECT_EQ(typical[0].demand, whole_gpus(1));
  EXPECT_DOUBLE_EQ(typical[0].part, 6.0 / 9);
  EXPECT_EQ(typical[1].demand, share_of_gpu(300));
  EXPECT_DOUBLE_EQ(typical[1].part, 3.0 / 9);
  EXPECT_EQ(typical_demands(fleet, jobs, 91).size(), 3U);
}

}  // namespace
}  // namespace gpemu::scheduling
