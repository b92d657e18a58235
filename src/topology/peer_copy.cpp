// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/peer_copy.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "gpemu/profile/nvlink.hpp"
#include "gpemu/topology/paths.hpp"

namespace gpemu::topology {
namespace {

using std::chrono::nanoseconds;

/// Bytes per second of a lane of PCIe 3.0 in one direction: 8 GT/s, of which 128/130 are data.
/// Each later generation doubles that, nearly.
constexpr double kLaneOfGeneration3 = 8e9 * 128 / 130 / 8;

// Shares of the line rate that large copies reach over PCIe, from the measurements that
// peer_copy_test.cpp lists with their sources.
constexpr double kPcieShare = 0.82;
constexpr double kPcieShareFromGeneration5 = 0.88;
constexpr double kStagedShare = 0.64;
constexpr double kStagedShareFromGeneration5 = 0.5;
/// What is left of that below one switch: 0.84 with A100, 0.71 with RTX 3090 (both ways together),
/// 0.56 with RTX 2080 Ti, of which this is the middle.
constexpr double kStagedBelowOneSwitch = 0.71;

// And the times of small copies.
constexpr Duration kNvlinkLatency = nanoseconds(2100);
constexpr Duration kPcieLatency = nanoseconds(1150);
constexpr Duration kPcieLatencyFromGeneration5 = nanoseconds(400);
constexpr Duration kStagedLatency = nanoseconds(13000);

/// Returns the lower of a rate and those of links above switches.
double slowest(const profile::TopologySpec& machine, double rate, std::span<const int> uplinks) {
  for (const int above : uplinks) {
    const profile::PcieSwitch& found = machine.switches[static_cast<std::size_t>(above)];
    rate = std::min(rate, pcie_line_rate(found.uplink));
  }
  return rate;
}

/// Whether GPUs below two sockets of a machine reach each other over PCIe.
bool joins_sockets(const profile::TopologySpec& machine, int first, int second) {
  const auto is_intel = [&machine](int socket) {
    return machine.sockets[static_cast<std::size_t>(socket)].contains("Intel");
  };
  return first == second || !(is_intel(first) || is_intel(second));
}

}  // namespace

double pcie_line_rate(const profile::PcieLink& link) {
  return kLaneOfGeneration3 * link.lanes * std::exp2(link.generation - 3);
}

double pcie_line_rate(const profile::GpuSpec& gpu) {
  return pcie_line_rate(
      profile::PcieLink{.generation = gpu.pcie_generation, .lanes = gpu.pcie_lanes});
}

bool has_pcie_peers(const profile::GpuSpec& gpu) {
  return !gpu.product_name.contains("GeForce");
}

bool has_pcie_peers(const profile::TopologySpec& machine, const profile::GpuSpec& gpu) {
  return machine.has_open_driver || has_pcie_peers(gpu);
}

PeerPath peer_path(const profile::GpuSpec& gpu, LinkClass link) {
  return {.link = link,
          .line_rate = link == LinkClass::kNvlink ? gpu.nvlink_bytes_per_s.value_or(0)
                                                  : pcie_line_rate(gpu)};
}

PeerPath peer_path(const profile::GpuSpec& gpu, int first, int second) {
  const bool nvlink = gpu.nvlink_bytes_per_s && first / gpu.nvlink_gpus == second / gpu.nvlink_gpus;
  return peer_path(gpu, nvlink                ? LinkClass::kNvlink
                        : has_pcie_peers(gpu) ? LinkClass::kPciePeer
                                              : LinkClass::kPcieStaged);
}

PeerPath peer_path(const profile::TopologySpec& machine, const profile::GpuSpec& gpu, int first,
                   int second) {
  const int links = nvlinks_between(machine, first, second);
  if (links > 0 && gpu.nvlink_bytes_per_s) {
    return {.link = LinkClass::kNvlink,
            .line_rate = std::min(links * profile::nvlink_rate(gpu), *gpu.nvlink_bytes_per_s)};
  }
  const profile::Place& from = machine.gpus[static_cast<std::size_t>(first)];
  const profile::Place& to = machine.gpus[static_cast<std::size_t>(second)];
  const int from_socket = socket_of(machine, from);
  const int to_socket = socket_of(machine, to);
  if (has_pcie_peers(machine, gpu) && joins_sockets(machine, from_socket, to_socket)) {
    return {.link = LinkClass::kPciePeer,
            .line_rate = slowest(machine, pcie_line_rate(gpu), uplinks_between(machine, from, to)),
            .across_sockets = from_socket != to_socket};
  }
  const double up = slowest(machine, pcie_line_rate(gpu), uplinks_above(machine, from));
  return {.link = LinkClass::kPcieStaged,
          .line_rate = slowest(machine, up, uplinks_above(machine, to)),
          .across_sockets = from_socket != to_socket,
          .below_one_switch = pcie_path(machine, from, to) <= Path::kPxb};
}

PeerCopy peer_copy(const profile::GpuSpec& gpu, const PeerPath& path) {
  const bool generation5 = gpu.pcie_generation >= 5;
  if (path.link == LinkClass::kNvlink) {
    return {kNvlinkLatency, path.line_rate * gpu.generation.nvlink_copy_share};
  }
  if (path.link == LinkClass::kPciePeer) {
    const double share = generation5 ? kPcieShareFromGeneration5 : kPcieShare;
    return {generation5 ? kPcieLatencyFromGeneration5 : kPcieLatency,
            path.line_rate * share * (path.across_sockets ? kAcrossSockets : 1)};
  }
  return {kStagedLatency, path.line_rate *
                              (generation5 ? kStagedShareFromGeneration5 : kStagedShare) *
                              (path.below_one_switch ? kStagedBelowOneSwitch : 1)};
}

double host_copy_rate(const profile::TopologySpec& machine, const profile::GpuSpec& gpu,
                      int index) {
  const double own = pcie_line_rate(gpu);
  const auto uplinks = uplinks_above(machine, machine.gpus[static_cast<std::size_t>(index)]);
  return gpu.pinned_copy_bytes_per_s * slowest(machine, own, uplinks) / own;
}

}  // namespace gpemu::topology
