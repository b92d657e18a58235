// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::profile {

/// A PCIe link.
struct PcieLink {
  int generation = 0;
  int lanes = 0;
};

/// A PCIe host bridge, through which a processor reaches switches, GPUs and network adapters.
struct HostBridge {
  std::string name;
  int socket = 0;
  int numa_node = 0;
  /// What copies between the host's memory and all GPUs below it reach together, per direction.
  std::optional<double> bytes_per_s = std::nullopt;
};

/// Where something is plugged in: below a switch, or below a host bridge.
struct Place {
  bool below_switch = false;
  int index = 0;  ///< of the switch or the host bridge.
};

/// A PCIe switch. A switch is listed after the one that it is below.
struct PcieSwitch {
  std::string name;
  Place place;
  PcieLink uplink;
};

struct NetworkAdapter {
  std::string name;
  Place place;
  double bytes_per_s = 0;  ///< of all its ports together, per direction.
};

/// NVLinks that join two GPUs directly.
struct NvlinkBond {
  int first = 0;
  int second = 0;
  int links = 0;
};

/// The GPUs of one machine and what joins them, from a TOML file under `catalog/topologies/`.
struct TopologySpec {
  std::string name;                  ///< gpemu's name, e.g. "dgx-1v"; the file's name too.
  std::string title;                 ///< e.g. "NVIDIA DGX-1 with Tesla V100".
  std::string gpu;                   ///< the specification of all its GPUs, e.g. "V100-SXM2-32GB".
  std::vector<std::string> sockets;  ///< the processor in each socket.
  std::vector<HostBridge> bridges;
  std::vector<PcieSwitch> switches;
  std::vector<Place> gpus;
  std::vector<NetworkAdapter> adapters;
  std::vector<NvlinkBond> bonds;  ///< empty if there is a switch.
  int switched_links = 0;         ///< NVLinks from each GPU to the NVSwitches; 0 without.
  /// Whether GeForce GPUs reach each other's memory over PCIe, which only a changed driver permits.
  bool has_open_driver = false;
  std::string toml;  ///< the text that describes all this.

  /// The source of each table of the file, e.g. "switch plx0", as a citation.
  std::map<std::string, std::string> sources;
};

/// Reads the description of a machine. `origin` names the text in messages, e.g. the file's path.
///
/// Strict: unknown keys, GPUs that are not plugged in or twice, and unused sources are faults too.
///
/// Errors: kCorruptData for the first fault, as "origin:line: field: what is wrong".
[[nodiscard]] Result<TopologySpec> parse_topology_spec(std::string_view toml,
                                                       std::string_view origin);

/// Errors: those of read_file and parse_topology_spec.
[[nodiscard]] Result<TopologySpec> load_topology_spec(const std::filesystem::path& path);

/// Returns a machine as programs see it that have some of its GPUs, numbered in the order of
/// `gpus`: the others and their NVLinks are left out.
///
/// Requires: `gpus` are numbers of the machine's, each once. Errors: those of parse_topology_spec,
///   of `machine.toml`.
[[nodiscard]] Result<TopologySpec> with_some_gpus(const TopologySpec& machine,
                                                  std::span<const std::size_t> gpus);

/// Returns the names of the machines that a folder describes, in order.
[[nodiscard]] std::vector<std::string> topology_names(const std::filesystem::path& folder);

/// Returns a machine by its name in a folder, or by the path of a TOML file (a name with '/' or
/// ending in ".toml").
///
/// Errors: kNotFound, with similar names; those of load_topology_spec.
[[nodiscard]] Result<TopologySpec> find_topology(const std::filesystem::path& folder,
                                                 std::string_view name_or_path);

}  // namespace gpemu::profile
