// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpemu/device/node.hpp"
#include "gpemu/sim/clock.hpp"

#include "command.hpp"
#include "text_table.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

struct SmiOptions {
  std::string node;
  int period_ms = 200;
  bool as_json = false;
};

/// Returns the share of the period for which an engine was busy, 0 to 1.
double utilization(const device::EngineSnapshot& before, const device::EngineSnapshot& after,
                   Duration period) {
  const double share = to_seconds(after.busy - before.busy) / to_seconds(period);
  return std::clamp(share, 0.0, 1.0);
}

json describe(const std::string& node, const device::DeviceSnapshot& before,
              const device::DeviceSnapshot& after, Duration period) {
  const double compute = utilization(before.engines[0], after.engines[0], period);
  json processes = json::array();
  for (const device::ProcessSnapshot& process : after.processes) {
    processes.push_back({{"pid", process.pid},
                         {"name", process.name},
                         {"memory_mib", to_mib(process.memory_held)}});
  }
  return {{"node", node},
          {"index", after.index},
          {"gpu", after.gpu},
          {"uuid", after.uuid},
          {"pci_bus_id", after.pci_bus_id},
          {"memory_used_mib", to_mib(after.memory_used)},
          {"memory_total_mib", to_mib(after.memory_total)},
          {"utilization_compute", compute},
          {"utilization_copy_h2d", utilization(before.engines[1], after.engines[1], period)},
          {"utilization_copy_d2h", utilization(before.engines[2], after.engines[2], period)},
          // Linear in the load between idle and the board's limit.
          {"power_w", after.idle_power_w + (after.max_power_w - after.idle_power_w) * compute},
          {"power_limit_w", after.max_power_w},
          {"kernels", after.engines[0].operations},
          {"bytes_h2d", after.engines[1].bytes},
          {"bytes_d2h", after.engines[2].bytes},
          {"processes", std::move(processes)}};
}

Result<std::vector<std::shared_ptr<device::Node>>> open_nodes(const std::string& name) {
  std::vector<std::shared_ptr<device::Node>> nodes;
  if (!name.empty()) {
    GPEMU_ASSIGN(auto node, device::Node::open(name));
    nodes.push_back(std::move(node));
    return nodes;
  }
  GPEMU_ASSIGN(const std::vector<std::string> names, device::Node::list());
  for (const std::string& listed : names) {
    // One that was removed since it was listed is left out.
    if (auto node = device::Node::open(listed)) nodes.push_back(*std::move(node));
  }
  return nodes;
}

Result<json> sample(const SmiOptions& options) {
  GPEMU_ASSIGN(const auto nodes, open_nodes(options.node));
  sim::RealClock clock;
  std::vector<device::DeviceSnapshot> before;
  const TimePoint start = clock.now();
  for (const auto& node : nodes) {
    node->recover_dead_processes();
    for (int i = 0; i < node->device_count(); ++i) {
      before.push_back(node->device_snapshot(i, start));
    }
  }
  if (!before.empty()) clock.wait_until(start + std::chrono::milliseconds(options.period_ms));
  const TimePoint end = clock.now();
  json devices = json::array();
  for (const auto& node : nodes) {
    for (int i = 0; i < node->device_count(); ++i) {
      devices.push_back(describe(node->name(), before[devices.size()],
                                 node->device_snapshot(i, end), end - start));
    }
  }
  return devices;
}

void print_tables(const json& devices) {
  TextTable table({"node", "gpu", "name", "memory / MiB", "compute", "h2d", "d2h", "power / W"});
  TextTable processes({"node", "gpu", "pid", "process", "memory / MiB"});
  const auto percent = [](const json& share) {
    return fmt::format("{:.0f} %", 100 * share.get<double>());
  };
  for (const json& device : devices) {
    const std::string index = fmt::to_string(device["index"].get<int>());
    table.add_row({device["node"], index, device["gpu"],
                   fmt::format("{:.0f} / {:.0f}", device["memory_used_mib"].get<double>(),
                               device["memory_total_mib"].get<double>()),
                   percent(device["utilization_compute"]), percent(device["utilization_copy_h2d"]),
                   percent(device["utilization_copy_d2h"]),
                   fmt::format("{:.0f} / {:.0f}", device["power_w"].get<double>(),
                               device["power_limit_w"].get<double>())});
    for (const json& process : device["processes"]) {
      processes.add_row({device["node"], index, fmt::to_string(process["pid"].get<int>()),
                         process["name"],
                         fmt::format("{:.0f}", process["memory_mib"].get<double>())});
    }
  }
  fmt::print("{}", table.str());
  fmt::print("\n{}", processes.empty() ? "no processes\n" : processes.str());
}

Result<void> run_smi(const SmiOptions& options) {
  GPEMU_ASSIGN(const json devices, sample(options));
  if (options.as_json) {
    fmt::print("{}\n", devices.dump(2));
  } else if (devices.empty()) {
    fmt::print("no nodes in {}: create one with `gpemu node create`, or start a run\n",
               device::Node::default_directory().string());
  } else {
    print_tables(devices);
  }
  return {};
}

}  // namespace

void add_smi_command(CLI::App& app) {
  CLI::App* smi = app.add_subcommand("smi", "Show memory, load and processes of emulated GPUs");
  auto options = std::make_shared<SmiOptions>();
  smi->add_option("node", options->node, "Name of the node; without it, all nodes");
  smi->add_option("--period-ms", options->period_ms, "Period over which the load is measured")
      ->check(CLI::Range(1, 60'000))
      ->capture_default_str();
  smi->add_flag("--json", options->as_json, "Print JSON");
  smi->footer("Examples:\n  gpemu smi\n  gpemu smi n0 --period-ms 1000 --json");
  set_action(*smi, [options] { return run_smi(*options); });
}

}  // namespace gpemu::tools
