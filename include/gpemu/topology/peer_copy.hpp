// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/units.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/topology/shares.hpp"

namespace gpemu::topology {

/// What a copy from one GPU's memory to another's takes: `latency` and bytes / `rate`.
struct PeerCopy {
  Duration latency{};  ///< of one of many small copies that follow each other.
  double rate = 0;     ///< bytes per second, one way, with nothing else on the links.
};

/// Returns what copies between two GPUs of a kind take over NVLink (all links that join them, as
/// the specification has them), over PCIe with peer access, or staged in the host's memory.
/// `across_sockets` says that a copy over PCIe crosses from one processor to another.
/// Requires: `link` is a link within a node.
[[nodiscard]] PeerCopy peer_copy(const profile::GpuSpec& gpu, LinkClass link,
                                 bool across_sockets = false);

/// Returns the raw rate of a GPU's PCIe link, bytes per second and direction.
[[nodiscard]] double pcie_line_rate(const profile::GpuSpec& gpu);

}  // namespace gpemu::topology
