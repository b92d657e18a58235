// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/log.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/monitor.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/sim/clock.hpp"

#include "cli/command_line.hpp"
#include "smi/smi_query.hpp"
#include "smi/smi_table.hpp"

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
};

json describe(const SmiDevice& device) {
  const device::DeviceSnapshot& now = device.now;
  json processes = json::array();
  for (const device::ProcessSnapshot& process : now.processes) {
    json shown = {
        {"pid", process.pid}, {"name", process.name}, {"memory_mib", to_mib(process.memory_held)}};
    if (process.foreign_namespace != 0) shown["pid_namespace"] = process.foreign_namespace;
    processes.push_back(std::move(shown));
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
          {"power_limit_w", now.max_power_w},
          {"kernels", now.engines[0].operations},
          {"bytes_h2d", now.engines[1].bytes},
          {"bytes_d2h", now.engines[2].bytes},
          {"processes", std::move(processes)}};
}

/// Returns the names of the nodes to show. A damaged one is reported, once, and left out.
Result<std::vector<std::string>> node_names(const SmiOptions& options) {
  if (!options.node.empty()) return std::vector{options.node};
  if (const char* name = std::getenv(variable::kNode); name != nullptr && *name != '\0') {
    return std::vector<std::string>{name};
  }
  GPEMU_ASSIGN(const std::vector<device::NodeEntry> nodes, device::Node::list());
  std::vector<std::string> names;
  for (const device::NodeEntry& node : nodes) {
    if (!node.problem) names.push_back(node.name);
  }
  return names;
}

/// Reports why a file that is listed as a node cannot be used.
void warn_of_damaged(const SmiOptions& options) {
  if (!options.node.empty()) return;
  const auto nodes = device::Node::list();
  if (!nodes) return;
  for (const device::NodeEntry& node : *nodes) {
    if (node.problem) log(LogLevel::kWarning, "{}", node.problem->message);
  }
}

/// Returns the time of day, as nvidia-smi writes it.
std::string local_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm fields{};
  ::localtime_r(&seconds, &fields);
  return fmt::format("{:%Y/%m/%d %H:%M:%S}.{:03}", fields, ms % 1000);
}

/// The nodes that are shown, kept from one sample to the next: each period begins at the end of the
/// previous one.
class Watch {
 public:
  explicit Watch(const SmiOptions& options) : options_(options) {}

  Result<SmiSample> sample() {
    GPEMU_TRY(follow());
    SmiSample sample;
    for (const auto& [name, monitor] : monitors_) {
      const device::NodeView& node = monitor->node();
      for (int i = 0; i < node.device_count(); ++i) {
        if (options_.device >= 0 && options_.device != i) continue;
        // The load comes first, so that the snapshot is from the end of its period.
        auto load = monitor->load(i);
        auto now = load ? monitor->snapshot(i) : std::unexpected(load.error());
        if (!now && monitors_.size() == 1) return std::unexpected(std::move(now).error());
        if (!now) break;  // Damaged since it was opened; the others are shown.
        sample.devices.push_back({.node = node.name(),
                                  .exclusive = node.policy() == device::SharingPolicy::kExclusive,
                                  .now = *std::move(now),
                                  .load = *std::move(load)});
      }
    }
    if (options_.device >= 0 && sample.devices.empty() && !monitors_.empty()) {
      return fail(ErrorCode::kNotFound, "there is no device {}; `gpemu smi -L` lists them",
                  options_.device);
    }
    sample.time = local_time();
    return sample;
  }

 private:
  /// By the requested names: the user's own node may be requested as USER/NAME.
  using Monitors = std::vector<std::pair<std::string, std::unique_ptr<device::Monitor>>>;

  /// Starts to watch new nodes, and stops for nodes that are gone.
  Result<void> follow() {
    // A run's node ends with the run, even while it is watched.
    std::erase_if(monitors_, [](const auto& entry) { return entry.second->node().over(); });
    GPEMU_ASSIGN(const std::vector<std::string> names, node_names(options_));
    Monitors kept;
    for (const std::string& name : names) {
      const auto known = std::ranges::find(monitors_, name, &Monitors::value_type::first);
      if (known != monitors_.end()) {
        kept.push_back(std::move(*known));
        continue;
      }
      auto monitor = watch(name);
      // A node that was removed since it was listed is left out.
      if (!monitor && names.size() == 1) return std::unexpected(std::move(monitor).error());
      if (monitor) kept.emplace_back(name, *std::move(monitor));
    }
    monitors_ = std::move(kept);
    return {};
  }

  Result<std::unique_ptr<device::Monitor>> watch(const std::string& name) {
    GPEMU_ASSIGN(auto node, device::NodeView::open(name));
    sim::Clock& clock = node->clock();
    return device::Monitor::create(std::move(node), clock,
                                   std::chrono::milliseconds(options_.period_ms));
  }

  const SmiOptions& options_;
  Monitors monitors_;
};

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
                    const SmiSample& sample) {
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
        device::Node::default_directory().string());
  }
  return smi_table(sample);
}

Result<void> run_smi(const SmiOptions& options) {
  GPEMU_ASSIGN(const auto query, read_query(options));
  warn_of_damaged(options);
  if (query) report::print_out("{}", query->header());
  Watch watch(options);
  sim::RealClock clock;
  const TimePoint start = clock.now();
  for (std::int64_t round = 1;; ++round) {
    GPEMU_ASSIGN(const SmiSample sample, watch.sample());
    report::print_out("{}", text_of(options, query, sample));
    GPEMU_TRY(report::finish_output());
    if (options.loop_s <= 0) return {};
    clock.wait_until(sample_time(start, options.loop_s, round));
  }
}

}  // namespace

void add_smi_command(Command app) {
  Command smi = app.subcommand("smi", "Show memory, load and processes of emulated GPUs");
  auto options = std::make_shared<SmiOptions>();
  smi.option(
      "node", options->node,
      "NAME, or USER/NAME for another user's node; without it, GPEMU_NODE or all your nodes");
  smi.option("-i,--id", options->device, "Index of the only device to show").non_negative();
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
  smi.on_run([options] { return run_smi(*options); });
}

}  // namespace gpemu::tools
