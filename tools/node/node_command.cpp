// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/text.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"
#include "gpemu/sim/clock.hpp"

#include "cli/command_line.hpp"
#include "cli/device_list.hpp"
#include "cli/sharing_options.hpp"
#include "node/power_command.hpp"
#include "node/topology_text.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

struct NodeOptions {
  std::string name;
  std::vector<std::string> gpus;
  SharingOptions sharing;
  std::string access = "owner";
  std::string topology;
  std::string faults;
  bool force = false;
  bool as_json = false;
};

/// Errors: kInvalidArgument if a GPU has no MIG.
Result<void> check_mig(const profile::Database& database, const std::vector<std::string>& gpus) {
  for (const std::string& text : gpus) {
    GPEMU_ASSIGN(const profile::GpuSpec spec, database.gpu(text.substr(0, text.rfind(':'))));
    if (!spec.mig_profiles.empty()) continue;
    return fail(ErrorCode::kInvalidArgument,
                "--sharing mig: MIG cannot divide a {} (its file has no table mig)", spec.name);
  }
  return {};
}

Result<void> create_node(const NodeOptions& options, const World& world) {
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  device::NodeConfig config{.name = options.name};
  std::vector<std::string> gpus = options.gpus;
  if (!options.topology.empty()) {
    GPEMU_ASSIGN(const profile::TopologySpec machine,
                 profile::find_topology(world.topologies, options.topology));
    config.topology = machine.toml;
    if (gpus.empty()) gpus = gpus_of(machine);
  }
  if (gpus.empty()) return fail(ErrorCode::kInvalidArgument, "give --gpu, --topology or both");
  GPEMU_ASSIGN(config.devices, read_device_list(database, gpus));
  GPEMU_ASSIGN(config.faults, faults_of(options.faults, config.devices.size()));
  options.sharing.apply_to(config);
  if (config.policy == device::SharingPolicy::kMig) GPEMU_TRY(check_mig(database, gpus));
  config.mode = options.access == "owner" ? 0600 : options.access == "group" ? 0660 : 0666;
  GPEMU_ASSIGN(const auto node, device::Node::create(config, world.nodes));
  report::print_out("created node '{}' with {} device{}\n", node->name(), node->device_count(),
                    node->device_count() == 1 ? "" : "s");
  return {};
}

Result<json> describe(const device::NodeView& node) {
  json devices = json::array();
  const TimePoint now = node.clock().now();
  for (int i = 0; i < node.device_count(); ++i) {
    GPEMU_ASSIGN(const device::DeviceSnapshot device, node.device_snapshot(i, now));
    devices.push_back({{"index", i},
                       {"gpu", device.gpu},
                       {"uuid", device.uuid},
                       {"pci_bus_id", device.pci_bus_id},
                       {"memory_total_mib", to_mib(device.memory_total)},
                       {"memory_used_mib", to_mib(device.memory_used)},
                       {"processes", device.processes.size()},
                       {"lost", device.health.lost},
                       {"clock_share", device.health.clock}});
  }
  GPEMU_ASSIGN(const std::string_view sharing, sharing_name(node));
  json description{{"name", node.name()},
                   {"sharing", sharing},
                   {"temporary", node.temporary()},
                   {"devices", std::move(devices)}};
  if (const profile::TopologySpec* topology = node.topology()) {
    description["topology"] = topology->name;
  }
  return description;
}

Result<void> show_node(const NodeOptions& options, const World& world) {
  GPEMU_ASSIGN(const auto node, device::NodeView::open(options.name, world.nodes));
  GPEMU_ASSIGN(const json description, describe(*node));
  if (options.as_json) {
    report::print_out("{}", report::json_text(description));
    return {};
  }
  const profile::TopologySpec* const topology = node->topology();
  report::print_out("node '{}': sharing {}{}{}\n", node->name(),
                    description["sharing"].get<std::string>(),
                    topology != nullptr ? fmt::format(", topology {}", topology->name) : "",
                    node->temporary() ? ", belongs to one run" : "");
  report::TextTable table({"device", "gpu", "memory used / MiB", "processes", "bus id", "uuid"});
  for (const json& device : description["devices"]) {
    table.add_row({fmt::to_string(device["index"].get<int>()), device["gpu"],
                   fmt::format("{:.0f} / {:.0f}", device["memory_used_mib"].get<double>(),
                               device["memory_total_mib"].get<double>()),
                   fmt::to_string(device["processes"].get<int>()), device["pci_bus_id"],
                   device["uuid"]});
  }
  report::print_out("{}", table.str(world.terminal().output_columns));
  for (const json& device : description["devices"]) {
    const double clock = device["clock_share"].get<double>();
    if (device["lost"].get<bool>()) {
      report::print_out("device {} has fallen off the bus (Xid 79)\n", device["index"].get<int>());
    } else if (clock < 1) {
      report::print_out("device {} is slow: it has {:.3g} % of its clock\n",
                        device["index"].get<int>(), 100 * clock);
    }
  }
  return {};
}

Result<json> describe(const std::string& name, const World& world) {
  GPEMU_ASSIGN(const auto node, device::NodeView::open(name, world.nodes));
  return describe(*node);
}

Result<void> list_nodes(const NodeOptions& options, const World& world) {
  GPEMU_ASSIGN(const std::vector<device::NodeEntry> entries, device::list_nodes(world.nodes));
  json nodes = json::array();
  report::TextTable table({"node", "devices", "first gpu", "sharing"});
  std::string problems;
  for (const device::NodeEntry& entry : entries) {
    const Result<json> node =
        entry.problem ? std::unexpected(*entry.problem) : describe(entry.name, world);
    // Removed since it was listed.
    if (!node && node.error().code == ErrorCode::kNotFound) continue;
    if (!node) {
      table.add_row({printable(entry.name), "-", "damaged", "-"});
      nodes.push_back({{"name", printable(entry.name)}, {"problem", node.error().message}});
      problems += fmt::format("{}\n", node.error().message);
      continue;
    }
    table.add_row({entry.name, fmt::to_string((*node)["devices"].size()),
                   (*node)["devices"][0]["gpu"], (*node)["sharing"]});
    nodes.push_back(*node);
  }
  if (options.as_json) {
    report::print_out("{}", report::json_text(nodes));
  } else if (table.empty()) {
    report::print_out("no nodes in {}\n", world.nodes.string());
  } else {
    report::print_out("{}{}{}", table.str(world.terminal().output_columns),
                      problems.empty() ? "" : "\n", problems);
  }
  return {};
}

Result<void> list_topologies(const NodeOptions& options, const World& world) {
  json machines = json::array();
  report::TextTable table({"topology", "machine", "gpus"});
  for (const std::string& name : profile::topology_names(world.topologies)) {
    GPEMU_ASSIGN(const profile::TopologySpec machine,
                 profile::find_topology(world.topologies, name));
    table.add_row({name, machine.title, fmt::format("{} x {}", machine.gpus.size(), machine.gpu)});
    machines.push_back({{"name", name},
                        {"title", machine.title},
                        {"gpu", machine.gpu},
                        {"gpus", machine.gpus.size()}});
  }
  report::print_out("{}", options.as_json ? report::json_text(machines)
                                          : table.str(world.terminal().output_columns));
  return {};
}

/// Returns the topology of a node, or the one of that name.
Result<profile::TopologySpec> topology_to_show(const NodeOptions& options, const World& world) {
  if (options.name.empty()) return profile::find_topology(world.topologies, options.topology);
  GPEMU_ASSIGN(const auto node, device::NodeView::open(options.name, world.nodes));
  return topology_of(*node);
}

Result<void> show_topology(const NodeOptions& options, const World& world) {
  if (options.name.empty() && options.topology.empty()) return list_topologies(options, world);
  GPEMU_ASSIGN(const profile::TopologySpec machine, topology_to_show(options, world));
  if (options.as_json) {
    report::print_out("{}", report::json_text(topology_json(machine)));
    return {};
  }
  report::print_out("{}: {} x {}\n\n{}\n{}", machine.title, machine.gpus.size(), machine.gpu,
                    topology_matrix(machine, world.terminal().output_columns),
                    topology_tree(machine));
  return {};
}

}  // namespace

void add_node_command(Command app, const World& world) {
  Command node = app.subcommand("node", "Create, list, show and remove nodes of emulated GPUs");
  node.require_subcommand();
  node.notes("Examples:\n  gpemu node create n0 --gpu V100-PCIE-32GB:8\n  gpemu node list");
  auto options = std::make_shared<NodeOptions>();

  Command create = node.subcommand("create", "Create a node that stays until it is removed");
  create.option("name", options->name, "Name of the node").required();
  create.option("--gpu", options->gpus, "Kind of device, as NAME or NAME:COUNT; repeatable");
  create.option("--topology", options->topology,
                "What joins the devices: a machine, by name (`gpemu node topo` lists them) or by "
                "the path of a TOML file. Without --gpu, the node has the machine's GPUs");
  create.option(
      "--faults", options->faults,
      "What goes wrong, and when, from now on: a TOML file (docs/reference/faults-file.md)");
  add_sharing_options(create, options->sharing, true);
  create
      .option("--access", options->access,
              "Who may attach, by USER/NAME: owner, group or all. Other users can then take all of "
              "the node's memory, falsify its numbers and damage it, but not crash gpemu")
      .one_of({"owner", "group", "all"})
      .show_default();
  create.notes(
      "Examples:\n"
      "  gpemu node create n0 --gpu V100-PCIE-32GB:8\n"
      "  gpemu node create dgx --topology dgx-a100\n"
      "  gpemu node create dgx --topology dgx-a100 --faults faults.toml\n"
      "  gpemu node create divided --gpu A100-SXM4-40GB --sharing mig\n"
      "  gpemu node create mixed --gpu A100-SXM4-40GB:4 --gpu T4:2 --sharing exclusive");
  create.on_run([options, &world] { return create_node(*options, world); });

  Command list = node.subcommand("list", "List the nodes of this host");
  list.flag("--json", options->as_json, "Print JSON");
  list.notes("Examples:\n  gpemu node list\n  gpemu node list --json");
  list.on_run([options, &world] { return list_nodes(*options, world); });

  Command show = node.subcommand("show", "Show a node's devices");
  show.option("name", options->name, "NAME, or USER/NAME for another user's node").required();
  show.flag("--json", options->as_json, "Print JSON");
  show.notes("Example:\n  gpemu node show n0");
  show.on_run([options, &world] { return show_node(*options, world); });

  Command topo =
      node.subcommand("topo", "Show what joins the GPUs of a node, as `nvidia-smi topo -m` does");
  topo.option("name", options->name,
              "NAME, or USER/NAME for another user's node; without it and --topology, lists the "
              "machines that gpemu describes");
  topo.option("--topology", options->topology,
              "Show a machine instead, by name or by the path of a TOML file")
      .excludes("name");
  topo.flag("--json", options->as_json, "Print JSON");
  topo.notes(std::string(kPathLegend) +
             "\n\nExamples:\n"
             "  gpemu node topo\n"
             "  gpemu node topo n0\n"
             "  gpemu node topo --topology dgx-a100\n"
             "  gpemu node topo --topology ./my-machine.toml --json");
  topo.on_run([options, &world] { return show_topology(*options, world); });

  add_power_command(node, world);

  Command remove = node.subcommand("remove", "Remove a node").alias("rm");
  remove.option("name", options->name, "NAME, or USER/NAME for another user's node").required();
  remove.flag("--force", options->force,
              "Remove it even if processes use it, or if it is not a node");
  remove.notes("Examples:\n  gpemu node remove n0\n  gpemu node remove n0 --force");
  remove.on_run([options, &world] {
    return device::remove_node(options->name, options->force, world.nodes);
  });
}

}  // namespace gpemu::tools
