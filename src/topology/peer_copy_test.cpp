// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/peer_copy.hpp"

#include <cmath>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::topology {
namespace {

profile::GpuSpec gpu(int compute_capability, int pcie_generation, double nvlink = 0) {
  profile::GpuSpec spec;
  spec.compute_capability_major = compute_capability;
  spec.pcie_generation = pcie_generation;
  spec.pcie_lanes = 16;
  if (nvlink > 0) spec.nvlink_bytes_per_s = nvlink * 1e9;
  return spec;
}

struct Measured {
  profile::GpuSpec gpu;
  LinkClass link = LinkClass::kNvlink;
  double gb_per_s = 0;
  bool across_sockets = false;
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
      {.gpu = gpu(8, 4), .link = kStaged, .gb_per_s = 20.2},  // A100
      {.gpu = gpu(8, 4), .link = kStaged, .gb_per_s = 16.9},  // A100 below one switch
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
    const double rate = peer_copy(row.gpu, row.link, row.across_sockets).rate;
    const double error = std::abs(rate / 1e9 / row.gb_per_s - 1);
    EXPECT_LT(error, 0.25) << row.gb_per_s;
    sum += error;
  }
  EXPECT_LT(sum / static_cast<double>(bandwidths().size()), 0.10);
}

// p2pBandwidthLatencyTest: H100 PCIe; RTX 6000 Ada and 4090; RTX PRO 6000; without peer access.
TEST(PeerCopy, SmallCopiesTakeTheMeasuredTimes) {
  const auto us = [](const profile::GpuSpec& spec, LinkClass link) {
    return to_seconds(peer_copy(spec, link).latency) * 1e6;
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

TEST(PcieLineRate, DoublesWithEachGeneration) {
  EXPECT_NEAR(pcie_line_rate(gpu(7, 3)), 15.75e9, 1e7);
  EXPECT_NEAR(pcie_line_rate(gpu(8, 4)), 31.5e9, 2e7);
  EXPECT_NEAR(pcie_line_rate(gpu(9, 5)), 63.0e9, 4e7);
}

}  // namespace
}  // namespace gpemu::topology
