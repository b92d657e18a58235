// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/peer_copy.hpp"

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "test_machine.hpp"

namespace gpemu::topology {
namespace {

profile::GpuSpec gpu(int compute_capability, int pcie_generation, double nvlink = 0) {
  profile::GpuSpec spec;
  spec.pcie_generation = pcie_generation;
  spec.pcie_lanes = 16;
  if (nvlink > 0) {
    spec.nvlink_bytes_per_s = nvlink * 1e9;
    spec.generation = profile::generation_facts(compute_capability, 0).value();
  }
  return spec;
}

struct Measured {
  profile::GpuSpec gpu;
  LinkClass link = LinkClass::kNvlink;
  double gb_per_s = 0;
  bool across_sockets = false;
  bool below_one_switch = false;
};

/// Large copies, one way, or half of both ways together; p2pBandwidthLatencyTest and nvbandwidth.
std::vector<Measured> bandwidths() {
  constexpr LinkClass kPeer = LinkClass::kPciePeer, kStaged = LinkClass::kPcieStaged;
  return {
      {.gpu = gpu(6, 3, 40), .gb_per_s = 35.3},     // P100, 2 links, POWER8
      {.gpu = gpu(7, 3, 75), .gb_per_s = 68.5},     // V100, 3 links, POWER9
      {.gpu = gpu(8, 4, 300), .gb_per_s = 273.5},   // A100, NVSwitch
      {.gpu = gpu(8, 4, 100), .gb_per_s = 93.1},    // A100, 4 links: EESSI/software-layer, PR 716
      {.gpu = gpu(8, 4, 56.25), .gb_per_s = 50.8},  // A40, bridge: NVIDIA/nccl-tests, issue 74
      {.gpu = gpu(9, 5, 450), .gb_per_s = 376},     // H100, NVSwitch: NVIDIA/nccl, issue 1264
      {.gpu = gpu(9, 5, 300), .gb_per_s = 256.8},   // H100 PCIe, 3 bridges
      {.gpu = gpu(9, 5, 150), .gb_per_s = 130.5},   // H100, 6 links: NVIDIA/cuda-samples, issue 392
      {.gpu = gpu(10, 5, 900), .gb_per_s = 770},    // GB200: Azure/AI-benchmarking-guide, issue 7
      {.gpu = gpu(8, 4), .link = kPeer, .gb_per_s = 26.3},  // RTX 6000 Ada
      {.gpu = gpu(8, 4), .link = kPeer, .gb_per_s = 25.1},  // RTX 4090, patched driver
      {.gpu = gpu(8, 4), .link = kPeer, .gb_per_s = 25.1},  // A40: NVIDIA/nccl-tests, issue 74
      {.gpu = gpu(8, 4), .link = kPeer, .gb_per_s = 20.5, .across_sockets = true},  // A40
      {.gpu = gpu(8, 4), .link = kPeer, .gb_per_s = 20.7, .across_sockets = true},  // RTX 4090
      {.gpu = gpu(12, 5), .link = kPeer, .gb_per_s = 56.6},  // RTX PRO 6000: voipmonitor/rtx6kpro
      {.gpu = gpu(12, 5), .link = kPeer, .gb_per_s = 54.1},  // the same behind a switch
      {.gpu = gpu(12, 5), .link = kPeer, .gb_per_s = 51.0, .across_sockets = true},
      {.gpu = gpu(8, 4), .link = kStaged, .gb_per_s = 20.2},                            // A100
      {.gpu = gpu(8, 4), .link = kStaged, .gb_per_s = 16.9, .below_one_switch = true},  // A100
      {.gpu = gpu(7, 3),
       .link = kStaged,
       .gb_per_s = 5.7,
       .below_one_switch = true},                             // RTX 2080 Ti
      {.gpu = gpu(8, 4), .link = kStaged, .gb_per_s = 22.3},  // RTX 6000 Ada
      {.gpu = gpu(8, 4), .link = kStaged, .gb_per_s = 19.6},  // RTX 4090, 2 EPYC 7542
      {.gpu = gpu(8, 4), .link = kStaged, .gb_per_s = 19.2},  // across sockets
      {.gpu = gpu(8, 4), .link = kStaged, .gb_per_s = 22.2},  // NVIDIA/nccl, issue 814
      {.gpu = gpu(9, 5), .link = kStaged, .gb_per_s = 37.0},  // H100: NVIDIA/nccl, issue 1264
      {.gpu = gpu(9, 5), .link = kStaged, .gb_per_s = 26.0},  // H100 PCIe
  };
}

TEST(PeerCopy, ReachesTheMeasuredBandwidthsWithinTenPercentOnAverage) {
  double sum = 0;
  for (const Measured& row : bandwidths()) {
    PeerPath path = peer_path(row.gpu, row.link);
    path.across_sockets = row.across_sockets;
    path.below_one_switch = row.below_one_switch;
    const double rate = peer_copy(row.gpu, path).rate;
    const double error = std::abs(rate / 1e9 / row.gb_per_s - 1);
    EXPECT_LT(error, 0.27) << row.gb_per_s;
    sum += error;
  }
  EXPECT_LT(sum / static_cast<double>(bandwidths().size()), 0.07);
}

// p2pBandwidthLatencyTest: H100 PCIe; RTX 6000 Ada and 4090; RTX PRO 6000; without peer access.
TEST(PeerCopy, SmallCopiesTakeTheMeasuredTimes) {
  const auto us = [](const profile::GpuSpec& spec, LinkClass link) {
    return to_seconds(peer_copy(spec, peer_path(spec, link)).latency) * 1e6;
  };
  EXPECT_NEAR(us(gpu(9, 5, 300), LinkClass::kNvlink) / 2.5, 1, 0.3);
  EXPECT_NEAR(us(gpu(7, 3, 150), LinkClass::kNvlink) / 1.85, 1, 0.3);
  EXPECT_NEAR(us(gpu(8, 4), LinkClass::kPciePeer) / 1.13, 1, 0.3);
  EXPECT_NEAR(us(gpu(8, 4), LinkClass::kPciePeer) / 1.19, 1, 0.3);
  EXPECT_NEAR(us(gpu(12, 5), LinkClass::kPciePeer) / 0.37, 1, 0.3);
  for (const double staged : {16.5, 10.7, 11.6, 12.5, 14.0, 15.0}) {
    EXPECT_NEAR(us(gpu(8, 4), LinkClass::kPcieStaged) / staged, 1, 0.3);
  }
}

/// Two GPUs below each of two sockets: below a switch with a link of half of the lanes, and
/// without.
profile::TopologySpec two_sockets(const std::string& processor) {
  const profile::Place below_switch{.below_switch = true, .index = 0}, below_bridge{.index = 1};
  return {.sockets = {processor, processor},
          .bridges = {{.name = "cpu0", .socket = 0}, {.name = "cpu1", .socket = 1}},
          .switches = {{.name = "plx0", .place = {}, .uplink = {.generation = 4, .lanes = 8}}},
          .gpus = {below_switch, below_switch, below_bridge, below_bridge}};
}

TEST(PeerPath, CrossesTheSlowestLink) {
  const profile::TopologySpec box = two_sockets("AMD EPYC 7742");
  const profile::GpuSpec a40 = gpu(8, 4);
  const double full = pcie_line_rate(a40);
  const PeerPath same_switch = peer_path(box, a40, 0, 1), across = peer_path(box, a40, 1, 2);
  EXPECT_EQ(same_switch.link, LinkClass::kPciePeer);
  EXPECT_DOUBLE_EQ(same_switch.line_rate, full);
  EXPECT_FALSE(same_switch.across_sockets);
  EXPECT_EQ(across.link, LinkClass::kPciePeer);
  EXPECT_DOUBLE_EQ(across.line_rate, full / 2);
  EXPECT_TRUE(across.across_sockets);
  EXPECT_LT(peer_copy(a40, across).rate, 0.5 * peer_copy(a40, same_switch).rate);
}

TEST(PeerPath, GivesNoAccessFromOneIntelProcessorToAnother) {
  const profile::TopologySpec box = two_sockets("Intel Xeon E5-2698 v4");
  const profile::GpuSpec t4 = gpu(7, 3);
  EXPECT_TRUE(peer_path(box, t4, 2, 3).gives_access());
  EXPECT_FALSE(peer_path(box, t4, 0, 3).gives_access());
}

TEST(PeerPath, OfGeForceIsStagedThroughBothLinksToTheHost) {
  const profile::TopologySpec box = two_sockets("AMD EPYC 7742");
  profile::GpuSpec rtx = gpu(8, 4);
  rtx.product_name = "NVIDIA GeForce RTX 4090";
  EXPECT_EQ(peer_path(box, rtx, 0, 1).link, LinkClass::kPcieStaged);
  EXPECT_DOUBLE_EQ(peer_path(box, rtx, 0, 1).line_rate, pcie_line_rate(rtx) / 2);
  EXPECT_DOUBLE_EQ(peer_path(box, rtx, 2, 3).line_rate, pcie_line_rate(rtx));
  EXPECT_TRUE(peer_path(box, rtx, 0, 1).below_one_switch);
  EXPECT_FALSE(peer_path(box, rtx, 2, 3).below_one_switch);
}

TEST(PeerPath, OfGeForceWithAChangedDriverIsThatOfOtherGpus) {
  profile::GpuSpec rtx = gpu(8, 4);
  rtx.product_name = "NVIDIA GeForce RTX 4090";
  const profile::TopologySpec changed = machine("rtx-4090-x8-p2p");
  EXPECT_TRUE(peer_path(changed, rtx, 0, 1).gives_access());
  EXPECT_FALSE(peer_path(changed, rtx, 0, 4).gives_access()) << "to another Intel processor";
  EXPECT_FALSE(peer_path(machine("rtx-4090-x8"), rtx, 0, 1).gives_access());
}

// GPU 0 of a DGX-1 has one, one, two and two links to GPUs 1 to 4, and none to the others, which
// are below the other processor.
TEST(PeerPath, InADgx1HasTheLinksOfThePair) {
  const profile::TopologySpec dgx = machine("dgx-1v");
  const profile::GpuSpec v100 = gpu(7, 3, 150);
  EXPECT_DOUBLE_EQ(peer_path(dgx, v100, 0, 1).line_rate, 25e9);
  EXPECT_DOUBLE_EQ(peer_path(dgx, v100, 0, 3).line_rate, 50e9);
  EXPECT_EQ(peer_path(dgx, v100, 0, 4).link, LinkClass::kNvlink);
  EXPECT_FALSE(peer_path(dgx, v100, 0, 5).gives_access());
}

TEST(PeerPath, ThroughNvswitchesHasAllLinks) {
  const profile::GpuSpec a100 = gpu(8, 4, 300);
  EXPECT_DOUBLE_EQ(peer_path(machine("dgx-a100"), a100, 0, 7).line_rate, 300e9);
  EXPECT_DOUBLE_EQ(peer_path(machine("dgx-a100"), gpu(8, 4), 0, 7).line_rate, pcie_line_rate(a100))
      << "a GPU without NVLink";
}

TEST(PeerPath, WithoutAMachineJoinsNeighboursByNvlink) {
  profile::GpuSpec a100 = gpu(8, 4, 300);
  a100.nvlink_gpus = 2;
  EXPECT_EQ(peer_path(a100, 2, 3).link, LinkClass::kNvlink);
  EXPECT_DOUBLE_EQ(peer_path(a100, 2, 3).line_rate, 300e9);
  EXPECT_EQ(peer_path(a100, 1, 2).link, LinkClass::kPciePeer);
}

TEST(HostCopyRate, IsHalvedBelowALinkOfHalfOfTheLanes) {
  profile::GpuSpec a40 = gpu(8, 4);
  a40.pinned_copy_bytes_per_s = 26e9;
  EXPECT_DOUBLE_EQ(host_copy_rate(two_sockets("AMD"), a40, 0), 13e9);
  EXPECT_DOUBLE_EQ(host_copy_rate(two_sockets("AMD"), a40, 3), 26e9);
}

TEST(PcieLineRate, DoublesWithEachGeneration) {
  EXPECT_NEAR(pcie_line_rate(gpu(7, 3)), 15.75e9, 1e7);
  EXPECT_NEAR(pcie_line_rate(gpu(8, 4)), 31.5e9, 2e7);
  EXPECT_NEAR(pcie_line_rate(gpu(9, 5)), 63.0e9, 4e7);
}

}  // namespace
}  // namespace gpemu::topology
