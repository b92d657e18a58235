// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/topology/peer_copy.hpp"

namespace gpemu::topology {

/// A link above a switch, or the way from a host bridge to the host's memory, in one direction,
/// that a copy shares with copies of other GPUs.
struct SharedLink {
  double bytes_per_s = 0;   ///< what copies of this kind reach on it, all together.
  bool upwards = false;     ///< towards the host.
  std::vector<int> others;  ///< the other GPUs below the switch or the bridge.
};

/// Returns the shared links of copies between pinned memory and a GPU. `upwards`: to the host.
/// Requires: the specification's rate of such copies is that with the links to itself.
[[nodiscard]] std::vector<SharedLink> shared_links(const profile::TopologySpec& machine,
                                                   const profile::GpuSpec& gpu, int index,
                                                   bool upwards);

/// Returns those of copies between two GPUs over PCIe; none for NVLink. `path`: between the two, as
/// peer_path returns it.
[[nodiscard]] std::vector<SharedLink> shared_links(const profile::TopologySpec& machine,
                                                   const profile::GpuSpec& gpu, int from, int to,
                                                   const PeerPath& path);

}  // namespace gpemu::topology
