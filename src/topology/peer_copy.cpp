// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/peer_copy.hpp"

#include <chrono>
#include <cmath>

namespace gpemu::topology {
namespace {

using std::chrono::nanoseconds;

/// Bytes per second of a lane of PCIe 3.0 in one direction: 8 GT/s, of which 128/130 are data.
/// Each later generation doubles that, nearly.
constexpr double kLaneOfGeneration3 = 8e9 * 128 / 130 / 8;

// Shares of the line rate that large copies reach, from the measurements that peer_copy_test.cpp
// lists with their sources.
constexpr double kNvlinkShare = 0.91;
constexpr double kNvlinkShareFromHopper = 0.85;
constexpr double kPcieShare = 0.82;
constexpr double kPcieShareFromGeneration5 = 0.88;
constexpr double kAcrossSockets = 0.82;
constexpr double kStagedShare = 0.64;
constexpr double kStagedShareFromGeneration5 = 0.5;

// And the times of small copies.
constexpr Duration kNvlinkLatency = nanoseconds(2100);
constexpr Duration kPcieLatency = nanoseconds(1150);
constexpr Duration kPcieLatencyFromGeneration5 = nanoseconds(400);
constexpr Duration kStagedLatency = nanoseconds(13000);

}  // namespace

double pcie_line_rate(const profile::GpuSpec& gpu) {
  return kLaneOfGeneration3 * gpu.pcie_lanes * std::exp2(gpu.pcie_generation - 3);
}

PeerCopy peer_copy(const profile::GpuSpec& gpu, LinkClass link, bool across_sockets) {
  const bool generation5 = gpu.pcie_generation >= 5;
  if (link == LinkClass::kNvlink) {
    const bool hopper = gpu.compute_capability_major >= 9;
    return {kNvlinkLatency,
            gpu.nvlink_bytes_per_s.value_or(0) * (hopper ? kNvlinkShareFromHopper : kNvlinkShare)};
  }
  if (link == LinkClass::kPciePeer) {
    const double share = generation5 ? kPcieShareFromGeneration5 : kPcieShare;
    return {generation5 ? kPcieLatencyFromGeneration5 : kPcieLatency,
            pcie_line_rate(gpu) * share * (across_sockets ? kAcrossSockets : 1)};
  }
  return {kStagedLatency,
          pcie_line_rate(gpu) * (generation5 ? kStagedShareFromGeneration5 : kStagedShare)};
}

}  // namespace gpemu::topology
