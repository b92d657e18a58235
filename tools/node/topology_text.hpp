// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/profile/topology_spec.hpp"

namespace gpemu::tools {

/// Returns the paths between all GPUs and network adapters of a machine, as the table that
/// `nvidia-smi topo -m` prints, at most `columns` wide.
[[nodiscard]] std::string topology_matrix(const profile::TopologySpec& machine, int columns);

/// Returns the same in the form of nvidia-smi, with tabs between the columns, and its legends. All
/// `cpus` of the host are near all GPUs, as in NVML: which cores are near a GPU is not described.
[[nodiscard]] std::string topology_tabs(const profile::TopologySpec& machine, int cpus);

/// Returns the PCIe tree of a machine, one line for each socket, host bridge and switch.
[[nodiscard]] std::string topology_tree(const profile::TopologySpec& machine);

/// Returns the topology of a node. Errors: kNotFound if it has none.
[[nodiscard]] Result<profile::TopologySpec> topology_of(const device::NodeView& node);

/// What the words of topology_matrix() mean.
inline constexpr char kPathLegend[] =
    "NV# is a number of NVLinks. Over PCIe, a path crosses at most one switch (PIX), several "
    "switches (PXB), a host bridge (PHB), several host bridges of a NUMA node (NODE), or the "
    "link between NUMA nodes (SYS).";

/// Returns a machine with its matrix: the row and the column of each of "devices".
[[nodiscard]] nlohmann::ordered_json topology_json(const profile::TopologySpec& machine);

}  // namespace gpemu::tools
