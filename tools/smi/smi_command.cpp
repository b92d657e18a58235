// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/log.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command_line.hpp"
#include "mig/mig_gpus.hpp"
#include "node/topology_text.hpp"
#include "smi/smi_query.hpp"
#include "smi/smi_table.hpp"
#include "smi/smi_watch.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

struct SmiOptions {
  std::string node;
  int device = -1;  ///< -1: all.
  int period_ms = 200;
  double loop_s = 0;  ///< 0: once.
  std::string query_gpu;
  std::string query_processes;
  std::string format;
  bool list = false;
  bool as_json = false;
  bool matrix = false;
};

json describe(const SmiDevice& device) {
  const device::DeviceSnapshot& now = device.now;
  json processes = json::array();
  for (const device::ProcessSnapshot& process : now.processes) {
    json shown = {
        {"pid", process.pid}, {"name", process.name}, {"memory_mib", to_mib(process.memory_held)}};
    if (process.foreign_namespace != 0) shown["pid_namespace"] = process.foreign_namespace;
    if (const SmiMigDevice* const mig = device.mig_of(process)) shown["mig"] = mig->device.uuid;
    const auto load = std::ranges::find_if(device.load.processes, [&](const auto& one) {
      return one.pid == process.pid && one.foreign_namespace == process.foreign_namespace;
    });
    shown["power_w"] = load == device.load.processes.end() ? 0 : load->power_w;
    processes.push_back(std::move(shown));
  }
  json divided = json::array();
  for (const SmiMigDevice& mig : device.mig) {
    divided.push_back({{"name", mig.device.name},
                       {"uuid", mig.device.uuid},
                       {"gpu_instance", mig.device.gpu_instance},
                       {"compute_instance", mig.device.compute_instance},
                       {"multiprocessors", mig.device.multiprocessors},
                       {"memory_used_mib", to_mib(mig.memory_used)},
                       {"memory_total_mib", to_mib(mig.device.memory_bytes)}});
  }
  return {{"node", device.node},
          {"index", now.index},
          {"gpu", now.gpu},
          {"uuid", now.uuid},
          {"pci_bus_id", now.pci_bus_id},
          {"memory_used_mib", to_mib(now.memory_used)},
          {"memory_total_mib", to_mib(now.memory_total)},
          {"utilization_compute", device.load.compute},
          {"utilization_copy_h2d", device.load.copy_h2d},
          {"utilization_copy_d2h", device.load.copy_d2h},
          {"power_w", device.load.power_w},
          {"power_limit_w", now.power.limit_w},
          {"energy_j", now.power.energy_j},
          {"lost", now.health.lost},
          {"clock_share", now.health.clock},
          {"kernels", now.engines[0].operations},
          {"bytes_h2d", now.engines[1].bytes},
          {"bytes_d2h", now.engines[2].bytes},
          {"compute_mode", compute_mode_word(now.compute_mode)},
          {"mig_devices", std::move(divided)},
          {"processes", std::move(processes)}};
}

/// Reports why a file that is listed as a node cannot be used.
void warn_of_damaged(const SmiOptions& options, const World& world) {
  if (!options.node.empty()) return;
  const auto nodes = device::list_nodes(world.nodes);
  if (!nodes) return;
  for (const device::NodeEntry& node : *nodes) {
    if (node.problem) log(LogLevel::kWarning, "{}", node.problem->message);
  }
}

/// Returns the query that the options ask for, if any.
Result<std::optional<SmiQuery>> read_query(const SmiOptions& options) {
  const bool of_devices = !options.query_gpu.empty();
  if (!of_devices && options.query_processes.empty()) {
    if (options.format.empty()) return std::nullopt;
    return fail(ErrorCode::kInvalidArgument, "--format needs --query-gpu or --query-compute-apps");
  }
  if (options.format.empty()) {
    return fail(ErrorCode::kInvalidArgument, "a query needs --format=csv");
  }
  GPEMU_ASSIGN(const CsvFormat format, read_csv_format(options.format));
  GPEMU_ASSIGN(
      SmiQuery query,
      SmiQuery::read(of_devices ? SmiQuery::Subject::kDevices : SmiQuery::Subject::kProcesses,
                     of_devices ? options.query_gpu : options.query_processes, format));
  return query;
}

std::string text_of(const SmiOptions& options, const std::optional<SmiQuery>& query,
                    const World& world, const SmiSample& sample) {
  if (query) return query->lines(sample);
  if (options.list) return smi_list(sample);
  if (options.as_json) {
    json devices = json::array();
    for (const SmiDevice& device : sample.devices) devices.push_back(describe(device));
    return report::json_text(devices);
  }
  if (sample.devices.empty()) {
    return fmt::format(
        "no nodes that you may open in {}: create one with `gpemu node create`, or start a run\n",
        world.nodes.string());
  }
  return smi_table(sample, SmiProgram::kGpemuSmi);
}

Result<void> run_smi(const SmiOptions& options, const World& world) {
  GPEMU_ASSIGN(const auto query, read_query(options));
  warn_of_damaged(options, world);
  if (query) report::print_out("{}", query->header());
  SmiWatch watch(
      {.folder = world.nodes,
       .node = options.node.empty() ? world.variable(variable::kNode).value_or("") : options.node,
       .device = options.device,
       .period = std::chrono::milliseconds(options.period_ms),
       .clock = world.clock_of_nodes,
       .mig_profiles =
           [&world](const std::string& gpu) -> Result<std::vector<profile::MigProfile>> {
         GPEMU_ASSIGN(profile::GpuSpec spec, find_gpu_spec(gpu, world));
         return std::move(spec.mig_profiles);
       }});
  const TimePoint start = world.clock.now();
  for (std::int64_t round = 1;; ++round) {
    GPEMU_ASSIGN(std::vector<SmiDevice> devices, watch.sample());
    SmiSample sample = sample_at(world.time_of_day());
    sample.devices = std::move(devices);
    report::print_out("{}", text_of(options, query, world, sample));
    GPEMU_TRY(report::finish_output());
    if (options.loop_s <= 0) return {};
    world.clock.wait_until(sample_time(start, options.loop_s, round));
  }
}

/// Prints what joins the GPUs of each node that is shown.
Result<void> show_topology(const SmiOptions& options, const World& world) {
  if (!options.matrix) {
    return fail(ErrorCode::kInvalidArgument, "give -m: `gpemu smi topo -m` prints the matrix");
  }
  std::string name = options.node;
  if (name.empty()) name = world.variable(variable::kNode).value_or("");
  std::vector<std::string> names;
  if (!name.empty()) {
    names.push_back(name);
  } else {
    GPEMU_ASSIGN(const std::vector<device::NodeEntry> nodes, device::list_nodes(world.nodes));
    for (const device::NodeEntry& node : nodes) {
      if (!node.problem) names.push_back(node.name);
    }
  }
  if (names.empty()) {
    return fail(ErrorCode::kNotFound,
                "there is no node: create one with `gpemu node create --topology`, or name a "
                "machine with `gpemu node topo --topology`");
  }
  for (const std::string& one : names) {
    GPEMU_ASSIGN(const auto node, device::NodeView::open(one, world.nodes));
    GPEMU_ASSIGN(const profile::TopologySpec machine, topology_of(*node));
    if (names.size() > 1) report::print_out("node '{}'\n", node->name());
    report::print_out("{}\n", topology_matrix(machine, world.terminal().output_columns));
  }
  report::print_out("Legend: X is the device itself. {}\n", kPathLegend);
  return {};
}

void add_topo_command(Command smi, const std::shared_ptr<SmiOptions>& options, const World& world) {
  Command topo = smi.subcommand("topo", "Show what joins the GPUs, as nvidia-smi does");
  topo.option("node", options->node,
              "NAME, or USER/NAME for another user's node; without it, GPEMU_NODE or all your "
              "nodes");
  topo.flag("-m,--matrix", options->matrix, "Print the matrix of the paths between the GPUs");
  topo.notes("Example:\n  gpemu smi topo -m");
  topo.on_run([options, &world] { return show_topology(*options, world); });
}

}  // namespace

void add_smi_command(Command app, const World& world) {
  Command smi = app.subcommand("smi", "Show memory, load and processes of emulated GPUs");
  auto options = std::make_shared<SmiOptions>();
  smi.option(
      "node", options->node,
      "NAME, or USER/NAME for another user's node; without it, GPEMU_NODE or all your nodes");
  smi.option("-i,--id", options->device, "Show only the device with this index").non_negative();
  smi.option("-l,--loop", options->loop_s, "Repeat after this many seconds, until Ctrl-C")
      .positive();
  smi.option("--query-gpu", options->query_gpu,
             "Print these fields of each device, e.g. utilization.gpu");
  smi.option("--query-compute-apps", options->query_processes,
             "Print these fields of each process, e.g. pid,used_memory")
      .excludes("--query-gpu");
  smi.option("--format", options->format, "Format of a query: csv[,noheader][,nounits]");
  smi.option("--period-ms", options->period_ms, "Period over which the load is measured")
      .range(1, 60'000)
      .show_default();
  smi.flag("-L,--list-gpus", options->list, "List the devices");
  smi.flag("--json", options->as_json, "Print JSON").excludes("--list-gpus");
  smi.notes(
      "Examples:\n"
      "  gpemu smi\n"
      "  gpemu smi --query-gpu=index,utilization.gpu,memory.used --format=csv,noheader -l 1\n"
      "  gpemu smi n0 --period-ms 1000 --json");
  add_topo_command(smi, options, world);
  smi.on_run([options, &world] { return run_smi(*options, world); });
}

}  // namespace gpemu::tools
