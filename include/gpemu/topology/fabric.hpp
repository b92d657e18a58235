// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/topology/collective.hpp"

namespace gpemu::topology {

/// Rings over NVLinks without a switch.
struct Rings {
  int count = 0;  ///< that share no link in the same direction.
  /// Whether they pass through GPUs that are not next in the ring, because no ring is direct.
  bool relayed = false;
};

/// Returns the most rings through the first `ranks` GPUs of a machine whose NVLinks join GPUs
/// directly. Each ring uses a link in one direction. Requires: 2 <= ranks <= 8.
[[nodiscard]] Rings find_rings(const profile::TopologySpec& machine, int ranks);

/// Describes what joins the first `ranks` GPUs of one machine.
///
/// Errors: kInvalidArgument for fewer than two ranks or more than the machine has.
[[nodiscard]] Result<Fabric> fabric_of(const profile::TopologySpec& machine,
                                       const profile::GpuSpec& gpu, int ranks);

/// Describes what joins some of the GPUs of one machine, in any order.
///
/// Errors: kInvalidArgument for fewer than two GPUs, one that does not exist, or one twice.
[[nodiscard]] Result<Fabric> fabric_of(const profile::TopologySpec& machine,
                                       const profile::GpuSpec& gpu, std::span<const int> gpus);

/// Describes what joins `ranks` GPUs of several equal machines, the first ones of each, that a
/// network joins. GPUs use their share of a machine's adapters, and one at least.
///
/// Errors: kInvalidArgument if the machines do not have that many or cannot have equally many;
/// kUnsupported for a machine without network adapters.
[[nodiscard]] Result<Fabric> fabric_of_nodes(const profile::TopologySpec& machine,
                                             const profile::GpuSpec& gpu, int ranks, int nodes,
                                             LinkClass between);

/// Describes what joins `ranks` equal GPUs of one node for which no machine is described: NVLink
/// with all of each GPU's links where it joins that many GPUs, else PCIe, with peer access but for
/// GeForce. Requires: ranks >= 1.
[[nodiscard]] Fabric fabric_of(const profile::GpuSpec& gpu, int ranks);

/// The same for a given kind of link within the node.
[[nodiscard]] Fabric fabric_of(const profile::GpuSpec& gpu, int ranks, LinkClass link);

}  // namespace gpemu::topology
