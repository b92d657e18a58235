// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/shared_links.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "test_machine.hpp"

namespace gpemu::topology {
namespace {

profile::GpuSpec v100() {
  profile::GpuSpec spec;
  spec.generation = profile::generation_facts(7, 0).value();
  spec.pcie_generation = 3;
  spec.pcie_lanes = 16;
  spec.pinned_copy_bytes_per_s = 12e9;
  return spec;
}

// Two GPUs are below each switch of a DGX-1.
TEST(SharedLinks, OfTheHostsCopiesAreThoseAboveSwitches) {
  const auto links = shared_links(machine("dgx-1v"), v100(), 5, true);
  ASSERT_EQ(links.size(), 1U);
  EXPECT_EQ(links[0].others, std::vector{4});
  EXPECT_TRUE(links[0].upwards);
  EXPECT_DOUBLE_EQ(links[0].bytes_per_s, 12e9) << "a link as fast as the GPU's own";
  EXPECT_FALSE(shared_links(machine("dgx-1v"), v100(), 5, false).at(0).upwards);
}

// In a DGX-2, a switch joins two switches with two GPUs each.
TEST(SharedLinks, OfTwoLevelsHaveMoreGpusFurtherUp) {
  const auto links = shared_links(machine("dgx-2"), v100(), 2, true);
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0].others, std::vector{3});
  EXPECT_EQ(links[1].others, (std::vector{0, 1, 3}));
}

TEST(SharedLinks, OfPeersAreThoseUpFromTheOneAndDownToTheOther) {
  profile::TopologySpec dgx = machine("dgx-2");
  dgx.switched_links = 0;
  const auto links = [&dgx](int from, int to) {
    return shared_links(dgx, v100(), from, to, peer_path(dgx, v100(), from, to));
  };
  EXPECT_TRUE(links(0, 1).empty()) << "one switch joins them";
  const auto within = links(0, 2);
  ASSERT_EQ(within.size(), 2U);
  EXPECT_TRUE(within[0].upwards);
  EXPECT_EQ(within[0].others, std::vector{1});
  EXPECT_FALSE(within[1].upwards);
  EXPECT_EQ(within[1].others, std::vector{3});
  EXPECT_DOUBLE_EQ(within[0].bytes_per_s, peer_copy(v100(), peer_path(dgx, v100(), 0, 2)).rate);
  EXPECT_EQ(links(0, 4).size(), 4U) << "another host bridge";
}

TEST(SharedLinks, OfStagedCopiesGoToTheHost) {
  const profile::TopologySpec box = machine("rtx-4090-x8");
  profile::GpuSpec rtx = v100();
  rtx.product_name = "NVIDIA GeForce RTX 4090";
  const auto links = shared_links(box, rtx, 0, 1, peer_path(box, rtx, 0, 1));
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0].others, (std::vector{1, 2, 3}));
  EXPECT_EQ(links[1].others, (std::vector{0, 2, 3}));
}

TEST(SharedLinks, OfAHostBridgeHaveItsLimit) {
  profile::TopologySpec dgx = machine("dgx-1v");
  dgx.bridges[1].bytes_per_s = 20e9;
  const auto links = shared_links(dgx, v100(), 5, false);
  ASSERT_EQ(links.size(), 2U);
  EXPECT_DOUBLE_EQ(links[1].bytes_per_s, 20e9);
  EXPECT_EQ(links[1].others, (std::vector{4, 6, 7}));
  EXPECT_FALSE(links[1].upwards);
  EXPECT_EQ(shared_links(dgx, v100(), 2, false).size(), 1U) << "the other bridge";
  // From one processor to the other: the link above a switch on each side, and the bridge.
  EXPECT_EQ(shared_links(dgx, v100(), 0, 5, peer_path(dgx, v100(), 0, 5)).size(), 3U);
}

TEST(SharedLinks, AreNoneWithNvlinkOrWithoutASwitch) {
  const profile::TopologySpec dgx = machine("dgx-a100");
  profile::GpuSpec a100 = v100();
  a100.nvlink_bytes_per_s = 300e9;
  EXPECT_TRUE(shared_links(dgx, a100, 0, 7, peer_path(dgx, a100, 0, 7)).empty());
  profile::TopologySpec box;
  box.bridges.resize(1);
  box.gpus.resize(2);
  EXPECT_TRUE(shared_links(box, v100(), 0, true).empty());
}

}  // namespace
}  // namespace gpemu::topology
