// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "gpemu/profile/topology_spec.hpp"

namespace gpemu::topology {

/// What a path between two devices of a machine crosses, from the nearest to the farthest.
/// Source: the legend of `nvidia-smi topo -m`.
enum class Path : std::uint8_t {
  kSelf,    ///< X: the same device.
  kPix,     ///< at most one PCIe switch.
  kPxb,     ///< several PCIe switches, but no host bridge.
  kPhb,     ///< a host bridge.
  kNode,    ///< several host bridges of one NUMA node.
  kSystem,  ///< SYS: the interconnect between NUMA nodes.
};

/// Returns the path over PCIe between two places.
[[nodiscard]] Path pcie_path(const profile::TopologySpec& machine, const profile::Place& from,
                             const profile::Place& to);

/// Returns the index of the host bridge above a place.
[[nodiscard]] int bridge_above(const profile::TopologySpec& machine, const profile::Place& place);

/// Returns the NUMA node of the host bridge above a place.
[[nodiscard]] int numa_node_of(const profile::TopologySpec& machine, const profile::Place& place);

/// Returns the socket of the host bridge above a place.
[[nodiscard]] int socket_of(const profile::TopologySpec& machine, const profile::Place& place);

/// Returns the switches whose link upwards the path over PCIe between two places crosses.
[[nodiscard]] std::vector<int> uplinks_between(const profile::TopologySpec& machine,
                                               const profile::Place& from,
                                               const profile::Place& to);

/// Returns the switches above a place, from the nearest on.
[[nodiscard]] std::vector<int> uplinks_above(const profile::TopologySpec& machine,
                                             const profile::Place& place);

/// Returns the number of NVLinks over which two GPUs reach each other without another GPU between
/// them; 0 for a GPU and itself. With NVSwitches, these are all links of a GPU.
[[nodiscard]] int nvlinks_between(const profile::TopologySpec& machine, int first, int second);

/// Returns the GPU to which an NVLink of a GPU leads, if it leads to one directly. A GPU's links
/// are numbered from 0 on, in the order of the machine's bonds.
[[nodiscard]] std::optional<int> nvlink_peer(const profile::TopologySpec& machine, int gpu,
                                             int link);

/// Returns the name that `nvidia-smi topo -m` prints, e.g. "PIX".
[[nodiscard]] std::string_view path_name(Path path);

}  // namespace gpemu::topology
