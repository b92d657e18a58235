// SPDX-License-Identifier: Apache-2.0
#include "nvidia_smi/nvidia_smi_monitor.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "gpemu/base/text.hpp"

namespace gpemu::tools {
namespace {

/// A line's device and, for pmon, its process; null for a device without one.
struct MonitorRow {
  const SmiDevice& device;
  const device::ProcessSnapshot* process = nullptr;
};

struct MonitorColumn {
  char metric;  ///< the letter of -s that shows it.
  std::string_view name, unit;
  std::string (*value)(const MonitorRow& row);
};

std::string dash(const MonitorRow& /*row*/) {
  return "-";
}

std::string whole(double value) {
  return value > 0 ? fmt::format("{:.0f}", value) : "-";
}

std::string busy(const MonitorRow& row, double share) {
  return row.device.divided ? "-" : fmt::format("{:.0f}", 100 * share);
}

std::string idle_engine(const MonitorRow& row) {
  return busy(row, 0);
}

std::string throughput(double bytes_per_s) {
  return fmt::format("{:.0f}", bytes_per_s / 1e6);
}

// The metrics of `nvidia-smi dmon -h`: power and temperature, utilization, clocks, violations,
// memory, errors, PCIe throughput.
constexpr MonitorColumn kDeviceColumns[] = {
    {'p', "pwr", "W", [](const MonitorRow& row) { return whole(row.device.load.power_w); }},
    {'p', "gtemp", "C", [](const MonitorRow& row) { return whole(row.device.load.temperature_c); }},
    {'p', "mtemp", "C", dash},
    {'u', "sm", "%", [](const MonitorRow& row) { return busy(row, row.device.load.compute); }},
    {'u', "mem", "%", [](const MonitorRow& row) { return busy(row, copy_share(row.device.load)); }},
    {'u', "enc", "%", idle_engine},
    {'u', "dec", "%", idle_engine},
    {'u', "jpg", "%", idle_engine},
    {'u', "ofa", "%", idle_engine},
    {'c', "mclk", "MHz",
     [](const MonitorRow& row) { return whole(row.device.now.facts.memory_clock_mhz); }},
    {'c', "pclk", "MHz", [](const MonitorRow& row) { return whole(row.device.load.sm_clock_mhz); }},
    {'v', "pviol", "%", dash},
    {'v', "tviol", "bool", dash},
    {'m', "fb", "MB", [](const MonitorRow& row) { return mib_text(row.device.now.memory_used); }},
    {'m', "bar1", "MB", dash},
    {'m', "ccpm", "MB", dash},
    {'e', "sbecc", "errs", dash},
    {'e', "dbecc", "errs", dash},
    {'e', "pci", "errs", dash},
    {'t', "rxpci", "MB/s",
     [](const MonitorRow& row) { return throughput(row.device.load.h2d_bytes_per_s); }},
    {'t', "txpci", "MB/s",
     [](const MonitorRow& row) { return throughput(row.device.load.d2h_bytes_per_s); }}};

/// A process's share of the kernels' time.
std::string process_share(const MonitorRow& row) {
  for (const device::ProcessLoad& load : row.device.load.processes) {
    if (row.process != nullptr && load.pid == row.process->pid &&
        load.foreign_namespace == row.process->foreign_namespace) {
      return busy(row, load.compute);
    }
  }
  return "-";
}

constexpr MonitorColumn kProcessColumns[] = {
    {'u', "sm", "%", process_share},
    // The memory traffic of kernels is not known: NVML reports 0.
    {'u', "mem", "%",
     [](const MonitorRow& row) {
       return row.process == nullptr ? std::string("-") : idle_engine(row);
     }},
    {'u', "enc", "%", dash},
    {'u', "dec", "%", dash},
    {'u', "jpg", "%", dash},
    {'u', "ofa", "%", dash},
    {'m', "fb", "MB",
     [](const MonitorRow& row) {
       return row.process == nullptr ? "-" : mib_text(row.process->memory_held);
     }},
    {'m', "ccpm", "MB", dash}};

std::span<const MonitorColumn> columns_of(NvidiaSmiMonitor::Subject subject) {
  if (subject == NvidiaSmiMonitor::Subject::kDevices) return kDeviceColumns;
  return kProcessColumns;
}

/// Returns the program's file name, as pmon shows it.
std::string command_of(const device::ProcessSnapshot& process) {
  const std::string name = printable(process.name);
  return name.substr(name.rfind('/') + 1).substr(0, 15);
}

}  // namespace

Result<NvidiaSmiMonitor> NvidiaSmiMonitor::create(Subject subject, std::string_view metrics,
                                                  std::string_view stamps) {
  if (metrics.empty()) metrics = subject == Subject::kDevices ? "puc" : "u";
  for (const char metric : metrics) {
    if (std::ranges::find(columns_of(subject), metric, &MonitorColumn::metric) !=
        columns_of(subject).end()) {
      continue;
    }
    return fail(ErrorCode::kInvalidArgument, "-s {}: '{}' is no metric; give some of {}",
                printable(metrics), printable({&metric, 1}),
                subject == Subject::kDevices ? "p, u, c, v, m, e, t" : "u, m");
  }
  if (stamps.find_first_not_of("DT") != std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument, "-o {}: give D, T or DT", printable(stamps));
  }
  return NvidiaSmiMonitor(subject, metrics, stamps);
}

std::string NvidiaSmiMonitor::header() const {
  const bool of_processes = subject_ == Subject::kProcesses;
  std::string dates;
  std::string forms;
  if (stamps_.contains('D')) dates += "Date       ", forms += "YYYYMMDD   ";
  if (stamps_.contains('T')) dates += "Time        ", forms += "HH:MM:SS    ";
  std::string names = "#" + dates + (stamps_.empty() ? " gpu" : "gpu");
  std::string units = "#" + forms + (stamps_.empty() ? " Idx" : "Idx");
  if (of_processes) names += "         pid   type", units += "           #    C/G";
  // In the driver's order, whatever the order of -s.
  for (const MonitorColumn& column : columns_of(subject_)) {
    if (!metrics_.contains(column.metric)) continue;
    names += fmt::format(" {:>6}", column.name);
    units += fmt::format(" {:>6}", column.unit);
  }
  if (of_processes) names += "    command", units += "    name";
  return names + " \n" + units + " \n";
}

std::string NvidiaSmiMonitor::stamp(const SmiSample& sample) const {
  // Of "2026/01/31 23:59:59.123".
  std::string date = sample.time.substr(0, 10);
  std::erase(date, '/');
  std::string text;
  if (stamps_.contains('D')) text += fmt::format(" {}  ", date);
  if (stamps_.contains('T')) text += fmt::format(" {}  ", sample.time.substr(11, 8));
  return text;
}

std::string NvidiaSmiMonitor::lines(const SmiSample& sample) const {
  std::string text;
  const auto add = [&](const MonitorRow& row) {
    text += stamp(sample) + fmt::format("{:>5}", row.device.now.index);
    if (subject_ == Subject::kProcesses) {
      text += row.process == nullptr
                  ? fmt::format(" {:>10} {:>5}", "-", "-")
                  : fmt::format(" {:>10} {:>5}", pid_text(*row.process), type_text(*row.process));
    }
    for (const MonitorColumn& column : columns_of(subject_)) {
      if (metrics_.contains(column.metric)) text += fmt::format(" {:>6}", column.value(row));
    }
    if (subject_ == Subject::kProcesses) {
      text += fmt::format("    {:<15}", row.process == nullptr ? "-" : command_of(*row.process));
    } else {
      text += ' ';
    }
    text += '\n';
  };
  for (const SmiDevice& device : sample.devices) {
    if (subject_ == Subject::kDevices || device.now.processes.empty()) {
      add({.device = device});
      continue;
    }
    for (const device::ProcessSnapshot& process : device.now.processes) {
      add({.device = device, .process = &process});
    }
  }
  return text;
}

}  // namespace gpemu::tools
