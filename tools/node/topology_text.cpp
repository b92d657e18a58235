// SPDX-License-Identifier: Apache-2.0
#include "node/topology_text.hpp"

#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/report/text_table.hpp"
#include "gpemu/topology/paths.hpp"

namespace gpemu::tools {
namespace {

using profile::Place;
using profile::TopologySpec;

/// The GPUs of a machine and then its network adapters.
struct Devices {
  std::vector<std::string> names;
  std::vector<Place> places;
};

Devices devices_of(const TopologySpec& machine) {
  Devices devices;
  for (const Place& place : machine.gpus) {
    devices.names.push_back(fmt::format("GPU{}", devices.names.size()));
    devices.places.push_back(place);
  }
  for (const profile::NetworkAdapter& adapter : machine.adapters) {
    devices.names.push_back(adapter.name);
    devices.places.push_back(adapter.place);
  }
  return devices;
}

std::string between(const TopologySpec& machine, const Devices& devices, std::size_t from,
                    std::size_t to) {
  if (from == to) return std::string(topology::path_name(topology::Path::kSelf));
  const std::size_t gpus = machine.gpus.size();
  const int links =
      from < gpus && to < gpus
          ? topology::nvlinks_between(machine, static_cast<int>(from), static_cast<int>(to))
          : 0;
  if (links > 0) return fmt::format("NV{}", links);
  return std::string(
      topology::path_name(topology::pcie_path(machine, devices.places[from], devices.places[to])));
}

std::vector<std::vector<std::string>> matrix_of(const TopologySpec& machine,
                                                const Devices& devices) {
  std::vector<std::vector<std::string>> rows(devices.names.size());
  for (std::size_t from = 0; from < rows.size(); ++from) {
    for (std::size_t to = 0; to < rows.size(); ++to) {
      rows[from].push_back(between(machine, devices, from, to));
    }
  }
  return rows;
}

bool is_at(const Place& place, bool below_switch, std::size_t index) {
  return place.below_switch == below_switch && place.index == static_cast<int>(index);
}

/// Returns ": " and what is plugged in directly below a bridge or a switch.
std::string plugged_in(const TopologySpec& machine, bool below_switch, std::size_t index) {
  std::string names;
  for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (is_at(machine.gpus[gpu], below_switch, index)) names += fmt::format(" GPU{}", gpu);
  }
  for (const profile::NetworkAdapter& adapter : machine.adapters) {
    if (is_at(adapter.place, below_switch, index)) {
      names += fmt::format(" {} ({:.4g} GB/s)", adapter.name, adapter.bytes_per_s / 1e9);
    }
  }
  return names.empty() ? names : ":" + names;
}

/// Appends the switches below a bridge or a switch. Each is listed after the one above it, so this
/// ends.
void add_switches(const TopologySpec& machine, bool below_switch, std::size_t index, int depth,
                  std::string& text) {
  for (std::size_t i = 0; i < machine.switches.size(); ++i) {
    const profile::PcieSwitch& found = machine.switches[i];
    if (!is_at(found.place, below_switch, index)) continue;
    text += fmt::format("{:{}}{} (PCIe {}.0 x{}){}\n", "", 2 * depth, found.name,
                        found.uplink.generation, found.uplink.lanes, plugged_in(machine, true, i));
    add_switches(machine, true, i, depth + 1, text);
  }
}

}  // namespace

Result<TopologySpec> topology_of(const device::NodeView& node) {
  if (const TopologySpec* topology = node.topology()) return *topology;
  return fail(ErrorCode::kNotFound,
              "the node '{}' has no topology: what joins its GPUs follows from their kind alone; "
              "`gpemu node create --topology` makes nodes with one (`gpemu node topo` lists them)",
              node.name());
}

std::string topology_matrix(const TopologySpec& machine, int columns) {
  const Devices devices = devices_of(machine);
  std::vector<std::string> header = devices.names;
  header.insert(header.begin(), "");
  header.emplace_back("NUMA node");
  report::TextTable table(std::move(header));
  const auto rows = matrix_of(machine, devices);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> cells = rows[i];
    cells.insert(cells.begin(), devices.names[i]);
    cells.push_back(fmt::to_string(topology::numa_node_of(machine, devices.places[i])));
    table.add_row(std::move(cells));
  }
  return table.str(columns);
}

std::string topology_tabs(const TopologySpec& machine, int cpus) {
  const std::string near = cpus == 1 ? "0" : fmt::format("0-{}", cpus - 1);
  Devices devices = devices_of(machine);
  std::string adapters;
  for (std::size_t i = machine.gpus.size(); i < devices.names.size(); ++i) {
    const std::string number = fmt::format("NIC{}", i - machine.gpus.size());
    adapters += fmt::format("  {}: {}\n", number, std::exchange(devices.names[i], number));
  }
  std::string text;
  for (const std::string& name : devices.names) text += "\t" + name;
  text += "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n";
  const auto rows = matrix_of(machine, devices);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += devices.names[i];
    for (const std::string& path : rows[i]) text += path == "X" ? "\t X " : "\t" + path;
    text += i < machine.gpus.size()
                ? fmt::format("\t{}\t{}\t\tN/A\n", near,
                              topology::numa_node_of(machine, devices.places[i]))
                : "\t\t\n";
  }
  text += fmt::format("\nLegend:\n\n  X is the device itself. {}\n", kPathLegend);
  if (!adapters.empty()) text += "\nNIC Legend:\n\n" + adapters;
  return text;
}

std::string topology_tree(const TopologySpec& machine) {
  std::string text;
  for (std::size_t socket = 0; socket < machine.sockets.size(); ++socket) {
    text += fmt::format("socket {}: {}\n", socket, machine.sockets[socket]);
    for (std::size_t i = 0; i < machine.bridges.size(); ++i) {
      const profile::HostBridge& bridge = machine.bridges[i];
      if (bridge.socket != static_cast<int>(socket)) continue;
      const std::string limit =
          bridge.bytes_per_s ? fmt::format(", {:.4g} GB/s", *bridge.bytes_per_s / 1e9) : "";
      text += fmt::format("  {} (NUMA node {}{}){}\n", bridge.name, bridge.numa_node, limit,
                          plugged_in(machine, false, i));
      add_switches(machine, false, i, 2, text);
    }
  }
  return text;
}

nlohmann::ordered_json topology_json(const TopologySpec& machine) {
  const Devices devices = devices_of(machine);
  return {{"name", machine.name},
          {"title", machine.title},
          {"gpu", machine.gpu},
          {"devices", devices.names},
          {"matrix", matrix_of(machine, devices)},
          {"sources", machine.sources}};
}

}  // namespace gpemu::tools
