// SPDX-License-Identifier: Apache-2.0
#include "job_fabric.hpp"

#include <string>

#include <gtest/gtest.h>

namespace gpemu::ranks {
namespace {

/// A machine of 4 GPUs that NVSwitches join, with two network adapters.
profile::TopologySpec switched_machine() {
  profile::TopologySpec machine;
  machine.name = "four";
  machine.bridges.resize(1);
  machine.gpus.resize(4);
  machine.switched_links = 12;
  machine.adapters.resize(2);
  for (auto& adapter : machine.adapters) adapter.bytes_per_s = 25e9;
  return machine;
}

profile::GpuSpec a_gpu() {
  profile::GpuSpec gpu;
  gpu.name = "GPU";
  gpu.generation = profile::generation_facts(8, 0).value();
  gpu.nvlink_bytes_per_s = 300e9;
  gpu.nvlink_gpus = 8;
  return gpu;
}

class JobFabricTest : public testing::Test {
 protected:
  profile::GpuSpec gpu_ = a_gpu();
  profile::TopologySpec topology_ = switched_machine();
  JobMachine machine_{.gpu = gpu_, .topology = &topology_, .gpus = {0, 1, 2, 3}, .network = {}};

  /// `per_host`: as torchrun was asked for.
  [[nodiscard]] Result<topology::Fabric> fabric(int ranks, int per_host) const {
    return fabric_of_job({.ranks = ranks, .ranks_per_host = per_host, .real_ranks = 1}, machine_);
  }
};

TEST_F(JobFabricTest, FillsOneMachineFirst) {
  const auto half = fabric(2, 2);
  ASSERT_TRUE(half);
  EXPECT_EQ(half->ranks, 2);
  EXPECT_EQ(half->nodes, 1);
  EXPECT_TRUE(half->switched);
}

TEST_F(JobFabricTest, TakesAsManyMachinesAsTheRanksNeed) {
  const auto four = fabric(16, 16);
  ASSERT_TRUE(four);
  EXPECT_EQ(four->ranks, 16);
  EXPECT_EQ(four->nodes, 4);
  EXPECT_EQ(four->network_rate, 50e9) << "both adapters";
}

TEST_F(JobFabricTest, TakesTheHostsOfTheLauncher) {
  const auto two = fabric(4, 2);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->nodes, 2);
  EXPECT_EQ(two->ranks_per_node(), 2);
}

TEST_F(JobFabricTest, TakesTheGivenNetworkBeforeTheAdapters) {
  machine_.network = topology::Network{.kind = topology::LinkClass::kSocket, .bytes_per_s = 1e9};
  const auto two = fabric(8, 8);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->between, topology::LinkClass::kSocket);
  EXPECT_EQ(two->network_rate, 1e9);
}

TEST_F(JobFabricTest, RefusesWhatItCannotPlace) {
  const auto uneven = fabric(6, 6);
  ASSERT_FALSE(uneven);
  EXPECT_EQ(uneven.error().message,
            "the 6 ranks of the job cannot be divided equally over machines of 4 GPUs");
  topology_.adapters.clear();
  const auto apart = fabric(8, 8);
  ASSERT_FALSE(apart);
  EXPECT_EQ(apart.error().message,
            "the 8 ranks of the job need 2 machines of 4 GPUs, and nothing says what joins them: "
            "set GPEMU_NETWORK to the network, e.g. rdma:200gbit, or choose a --topology with "
            "network adapters");
}

TEST_F(JobFabricTest, TakesAnyNumberOfGpusOfAKindIfNoneAreNamed) {
  const auto alone = fabric_of_job({.ranks = 8, .ranks_per_host = 8, .real_ranks = 1},
                                   {.gpu = gpu_, .gpus = {}, .network = {}});
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->ranks, 8);
  EXPECT_EQ(alone->nodes, 1);
}

}  // namespace
}  // namespace gpemu::ranks
