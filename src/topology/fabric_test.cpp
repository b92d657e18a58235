// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/fabric.hpp"

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test_machine.hpp"

namespace gpemu::topology {
namespace {

profile::GpuSpec gpu(const std::string& name) {
  const std::filesystem::path folder = GPEMU_GPUS_FOLDER;
  return profile::load_gpu_spec(folder / (name + ".toml")).value();
}

TEST(FindRings, OfADgx1UseEachLinkOnceInADirection) {
  const profile::TopologySpec dgx = machine("dgx-1v");
  // By number of GPUs, from 2.
  constexpr std::array kRings = {1, 2, 4, 2, 2, 4, 6};
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const Rings rings = find_rings(dgx, ranks);
    EXPECT_EQ(rings.count, kRings.at(ranks - 2)) << ranks;
    // GPU 4 has links to GPU 0 only, of GPUs 0 to 3.
    EXPECT_EQ(rings.relayed, ranks == 5) << ranks;
  }
}

TEST(FindRings, AreNoneWithoutLinks) {
  profile::TopologySpec two;
  two.gpus.resize(2);
  EXPECT_EQ(find_rings(two, 2).count, 0);
}

// The bandwidths for 2 to 8 GPUs that VIA-Research/vTrain measured.
TEST(FabricOf, ADgx1GivesItsMeasuredBandwidths) {
  constexpr std::array kMeasured = {22.6, 45.0, 85.0, 37.0, 46.0, 87.0, 134.0};
  constexpr Bytes kLarge = 4 * kGiB;
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const auto fabric = fabric_of(machine("dgx-1v"), gpu("V100-SXM2-32GB"), ranks);
    ASSERT_TRUE(fabric);
    const double time = to_seconds(time_of(*fabric, Collective::kAllReduce, kLarge).time);
    const double bus =
        static_cast<double>(kLarge) * bus_factor(Collective::kAllReduce, ranks) / time / 1e9;
    EXPECT_NEAR(bus / kMeasured.at(ranks - 2), 1, 0.1) << ranks;
  }
}

// GPUs 0, 3, 7 and 4 form a ring over one link at least; 0 and 5 have none.
TEST(FabricOf, SomeGpusHaveTheirOwnLinks) {
  const auto v100 = gpu("V100-SXM2-32GB");
  const auto fabric = [&](std::vector<int> gpus) {
    return fabric_of(machine("dgx-1v"), v100, gpus);
  };
  EXPECT_DOUBLE_EQ(fabric({0, 3})->line_rate, 50e9);
  EXPECT_DOUBLE_EQ(fabric({1, 0})->line_rate, 25e9);
  EXPECT_EQ(fabric({7, 0, 4, 3})->inside, LinkClass::kNvlink);
  EXPECT_DOUBLE_EQ(fabric({0, 4, 7, 3})->line_rate, fabric({7, 0, 4, 3})->line_rate);
  EXPECT_EQ(fabric({0, 5})->inside, LinkClass::kPcieStaged);
  EXPECT_DOUBLE_EQ(fabric({0, 1, 2, 3})->line_rate,
                   fabric_of(machine("dgx-1v"), v100, 4)->line_rate);
}

TEST(FabricOf, RefusesGpusThatDoNotExistAndOneTwice) {
  for (const std::vector<int>& gpus : {std::vector<int>{}, {0}, {0, 0}, {0, 8}, {-1, 0}}) {
    EXPECT_FALSE(fabric_of(machine("dgx-1v"), gpu("V100-SXM2-32GB"), gpus));
  }
}

TEST(FabricOf, GpusWithoutNvlinkUsePcieInAnyMachine) {
  EXPECT_NE(fabric_of(machine("dgx-a100"), gpu("T4"), 4)->inside, LinkClass::kNvlink);
  EXPECT_NE(fabric_of(machine("dgx-1v"), gpu("T4"), 4)->inside, LinkClass::kNvlink);
}

TEST(FabricOf, AGpuWithoutNvlinkHasARateAlone) {
  const Fabric alone = fabric_of(gpu("T4"), 1, LinkClass::kNvlink);
  EXPECT_NE(alone.inside, LinkClass::kNvlink);
  EXPECT_GT(alone.line_rate, 0);
}

TEST(FabricOf, NvswitchesGiveEachGpuAllItsLinks) {
  const auto fabric = fabric_of(machine("dgx-a100"), gpu("A100-SXM4-40GB"), 3);
  ASSERT_TRUE(fabric);
  EXPECT_TRUE(fabric->switched);
  EXPECT_EQ(fabric->generation, Generation::kAmpere);
  EXPECT_DOUBLE_EQ(fabric->line_rate, 300e9);
  EXPECT_DOUBLE_EQ(fabric->searched_rate, 240e9);
}

TEST(FabricOf, WithoutNvlinkGpusBelowASwitchArePeers) {
  profile::TopologySpec box = machine("dgx-1v");
  box.bonds.clear();
  const profile::GpuSpec v100 = gpu("V100-PCIE-32GB");
  EXPECT_EQ(fabric_of(box, v100, 2)->inside, LinkClass::kPciePeer);
  EXPECT_NEAR(fabric_of(box, v100, 2)->line_rate, 15.75e9, 1e7);
  EXPECT_EQ(fabric_of(box, v100, 3)->inside, LinkClass::kPcieStaged) << "a host bridge";
  EXPECT_EQ(fabric_of(box, gpu("RTX-4090"), 2)->inside, LinkClass::kPcieStaged) << "GeForce";
  const std::vector below{4, 5, 6, 7};
  EXPECT_EQ(fabric_of(machine("rtx-4090-x8"), gpu("RTX-4090"), below)->inside,
            LinkClass::kPcieStaged);
  EXPECT_EQ(fabric_of(machine("rtx-4090-x8-p2p"), gpu("RTX-4090"), below)->inside,
            LinkClass::kPciePeer);
}

TEST(FabricOf, RingsOverPcieAreSlowerAcrossSockets) {
  const profile::TopologySpec box = machine("rtx-4090-x8");
  const std::vector one{0, 1, 2, 3}, both{0, 1, 4, 5};
  EXPECT_NEAR(fabric_of(box, gpu("RTX-4090"), one)->line_rate, 31.5e9, 1e7);
  EXPECT_NEAR(fabric_of(box, gpu("RTX-4090"), both)->line_rate, 0.82 * 31.5e9, 1e7);
}

TEST(FabricOf, GpusWithoutADescribedMachineHaveAllTheirLinks) {
  EXPECT_TRUE(fabric_of(gpu("A100-SXM4-40GB"), 8).switched);
  EXPECT_DOUBLE_EQ(fabric_of(gpu("A100-SXM4-40GB"), 8).line_rate, 300e9);
  EXPECT_EQ(fabric_of(gpu("A100-SXM4-40GB"), 16).inside, LinkClass::kPciePeer) << "16 of 8";
  EXPECT_FALSE(fabric_of(gpu("V100-SXM2-32GB"), 4).switched);
  EXPECT_DOUBLE_EQ(fabric_of(gpu("RTX-3090"), 2).line_rate, 56.25e9) << "a bridge";
  EXPECT_EQ(fabric_of(gpu("RTX-3090"), 4).inside, LinkClass::kPcieStaged);
  EXPECT_NEAR(fabric_of(gpu("RTX-4090"), 2).line_rate, 31.5e9, 1e7);
  EXPECT_EQ(fabric_of(gpu("T4"), 2).inside, LinkClass::kPciePeer);
}

TEST(FabricOf, RefusesMoreGpusThanThereAre) {
  const auto nine = fabric_of(machine("dgx-1v"), gpu("V100-SXM2-32GB"), 9);
  ASSERT_FALSE(nine);
  EXPECT_EQ(nine.error().message, "dgx-1v has 8 GPUs, so a group has 2 to 8, not 9");
  EXPECT_FALSE(fabric_of(machine("dgx-1v"), gpu("V100-SXM2-32GB"), 1));
}

TEST(FabricOfNodes, JoinsMachinesByTheirAdapters) {
  const profile::TopologySpec dgx = machine("dgx-1v");
  const auto all = fabric_of_nodes(dgx, gpu("V100-SXM2-32GB"), 32, 4, LinkClass::kRdma);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->ranks, 32);
  EXPECT_EQ(all->nodes, 4);
  EXPECT_EQ(all->between, LinkClass::kRdma);
  EXPECT_DOUBLE_EQ(all->network_rate, 4 * 12.5e9);
  EXPECT_DOUBLE_EQ(all->line_rate, fabric_of(dgx, gpu("V100-SXM2-32GB"), 8)->line_rate);
  EXPECT_DOUBLE_EQ(
      fabric_of_nodes(dgx, gpu("V100-SXM2-32GB"), 8, 2, LinkClass::kRdma)->network_rate,
      2 * 12.5e9);
  EXPECT_DOUBLE_EQ(
      fabric_of_nodes(dgx, gpu("V100-SXM2-32GB"), 2, 2, LinkClass::kRdma)->network_rate, 12.5e9);
  EXPECT_EQ(fabric_of_nodes(dgx, gpu("V100-SXM2-32GB"), 8, 1, LinkClass::kRdma)->nodes, 1);
}

TEST(FabricOfNodes, RefusesWhatMachinesDoNotHave) {
  profile::TopologySpec dgx = machine("dgx-1v");
  EXPECT_EQ(fabric_of_nodes(dgx, gpu("V100-SXM2-32GB"), 9, 2, LinkClass::kRdma).error().message,
            "9 GPUs cannot be divided equally over 2 nodes");
  EXPECT_EQ(fabric_of_nodes(dgx, gpu("V100-SXM2-32GB"), 1, 2, LinkClass::kRdma).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(fabric_of_nodes(dgx, gpu("V100-SXM2-32GB"), 18, 2, LinkClass::kRdma).error().message,
            "dgx-1v has 8 GPUs, so a group has 2 to 8, not 9");
  dgx.adapters.clear();
  EXPECT_EQ(fabric_of_nodes(dgx, gpu("V100-SXM2-32GB"), 16, 2, LinkClass::kRdma).error().message,
            "dgx-1v has no network adapters to join several nodes");
}

}  // namespace
}  // namespace gpemu::topology
