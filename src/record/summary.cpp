// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/summary.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "gpemu/cost/estimate.hpp"
#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/record/communication.hpp"

namespace gpemu::record {
namespace {

using OrderedJson = nlohmann::ordered_json;

double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// Sums a list of totals over all processes, the longest first.
template <std::size_t Count>
OrderedJson sum_totals(const std::vector<RecordedProcess>& processes, const auto& totals_of,
                       const std::array<std::string_view, Count>& names) {
  OrderedJson sums = OrderedJson::array();
  for (std::size_t i = 0; i < Count; ++i) {
    process::RecordedTotal sum;
    for (const RecordedProcess& process : processes) {
      const process::RecordedTotal& total = totals_of(process.totals)[i];
      sum.count += total.count;
      sum.time_ns += total.time_ns;
    }
    if (sum.count == 0) continue;
    sums.push_back({{"name", names[i]}, {"count", sum.count}, {"time_ns", sum.time_ns}});
  }
  std::stable_sort(sums.begin(), sums.end(), [](const OrderedJson& a, const OrderedJson& b) {
    return a["time_ns"].get<std::int64_t>() > b["time_ns"].get<std::int64_t>();
  });
  return sums;
}

/// Returns the share of the run during which kernels ran on its devices, as monitoring tools see
/// it. Copies do not count. It is at most 1, though kernels may run side by side, and a program
/// that dies may leave queued work that never runs.
double utilization(const OrderedJson& summary) {
  std::set<int> devices;
  for (const OrderedJson& device : summary["devices"]) devices.insert(device["index"].get<int>());
  std::int64_t busy = 0;
  for (const OrderedJson& entry : summary["classes"]) {
    if (entry["name"] != "copy") busy += entry["time_ns"].get<std::int64_t>();
  }
  const std::int64_t span =
      summary["last_ns"].get<std::int64_t>() - summary["first_ns"].get<std::int64_t>();
  return std::min(percent(busy, span * static_cast<std::int64_t>(devices.size())) / 100, 1.0);
}

OrderedJson device_json(const RecordedProcess& process, const process::RecordedDevice& device) {
  const std::int64_t span_ns = device.last_ns - device.first_ns;
  const std::int64_t idle_ns = std::max<std::int64_t>(span_ns - device.busy_ns, 0);
  const std::int64_t unasked_ns = std::min(device.unasked_ns, idle_ns);
  return {{"pid", process.totals.process},
          {"index", device.index},
          {"gpu", device.gpu},
          {"operations", device.operations},
          {"first_ns", device.first_ns},
          {"last_ns", device.last_ns},
          {"busy_ns", device.busy_ns},
          {"idle_ns", idle_ns},
          {"idle_unasked_ns", unasked_ns},
          {"idle_host_computing_ns", device.computing_ns},
          {"idle_host_blocked_ns", device.blocked_ns},
          {"idle_ordered_ns", idle_ns - unasked_ns},
          {"peak_memory_bytes", device.peak_memory_bytes},
          {"memory_bytes", device.memory_bytes},
          {"collectives", collectives_of(device)}};
}

/// Returns how many operations ran on devices beyond ProcessRecord::kMaxDevices: classes count
/// them, devices do not.
std::int64_t operations_left_out(const process::ProcessRecord& totals) {
  std::int64_t count = 0;
  for (const process::RecordedTotal& total : totals.classes) count += total.count;
  for (const process::RecordedDevice& device : totals.devices) count -= device.operations;
  return std::max<std::int64_t>(count, 0);
}

OrderedJson calls_json(const std::vector<RecordedProcess>& processes) {
  std::map<std::pair<std::string, std::string>, std::int64_t> counts;
  for (const RecordedProcess& process : processes) {
    for (const process::RecordedCall& call : process.totals.calls) {
      if (call.count > 0) counts[{call.library, call.function}] += call.count;
    }
  }
  OrderedJson calls = OrderedJson::array();
  for (const auto& [function, count] : counts) {
    calls.push_back({{"library", function.first}, {"function", function.second}, {"count", count}});
  }
  return calls;
}

/// How the bytes of large copies were moved.
OrderedJson copies_json(const std::vector<RecordedProcess>& processes) {
  const auto sum = [&processes](std::int64_t process::ProcessRecord::* field) {
    std::int64_t total = 0;
    for (const RecordedProcess& process : processes) total += process.totals.*field;
    return total;
  };
  return {{"moved_bytes", sum(&process::ProcessRecord::moved_bytes)},
          {"moving_ns", sum(&process::ProcessRecord::moving_ns)},
          {"late_ns", sum(&process::ProcessRecord::late_ns)},
          {"late_wait_ns", sum(&process::ProcessRecord::late_wait_ns)},
          {"not_locked_bytes", sum(&process::ProcessRecord::not_locked_bytes)}};
}

/// The program's reads of values that were not computed, by kernel; the most bytes first.
OrderedJson reads_json(const std::vector<RecordedProcess>& processes) {
  std::map<std::string, process::RecordedRead> sums;
  for (const RecordedProcess& process : processes) {
    for (const process::RecordedRead& read : process.totals.reads) {
      if (read.count == 0) continue;
      process::RecordedRead& sum = sums[read.writer];
      sum.count += read.count;
      sum.bytes += read.bytes;
    }
  }
  OrderedJson reads = OrderedJson::array();
  for (const auto& [writer, sum] : sums) {
    reads.push_back({{"writer", writer}, {"count", sum.count}, {"bytes", sum.bytes}});
  }
  std::stable_sort(reads.begin(), reads.end(), [](const OrderedJson& a, const OrderedJson& b) {
    return a["bytes"].get<std::int64_t>() > b["bytes"].get<std::int64_t>();
  });
  return reads;
}

/// If no process of the run launched a kernel or a collective, lists those that loaded NVIDIA's
/// libraries.
OrderedJson without_work(const OrderedJson& summary, const std::vector<LoadedLibrary>& loaded) {
  OrderedJson processes = OrderedJson::array();
  const bool launched = std::ranges::any_of(summary["classes"], [](const OrderedJson& entry) {
    return entry["name"] != "copy" && entry["name"] != "set";
  });
  const bool communicated = std::ranges::any_of(summary["devices"], [](const OrderedJson& device) {
    return !device["collectives"].is_null();
  });
  if (launched || communicated) return processes;
  for (const LoadedLibrary& one : loaded) {
    // A program that allocates memory uses the GPU, and may need no more.
    const auto device = std::ranges::find_if(summary["devices"], [&one](const OrderedJson& entry) {
      return entry["pid"] == one.process && entry["peak_memory_bytes"].get<std::uint64_t>() > 0;
    });
    if (device != summary["devices"].end()) continue;
    processes.push_back({{"pid", one.process}, {"program", one.program}, {"library", one.library}});
  }
  return processes;
}

}  // namespace

OrderedJson summarise(const std::vector<RecordedProcess>& processes,
                      const std::vector<LoadedLibrary>& loaded) {
  OrderedJson devices = OrderedJson::array();
  std::int64_t first_ns = 0, last_ns = 0;
  std::int64_t wait_ns = 0, not_kept_bytes = 0, calls_left_out = 0, lines_left_out = 0;
  std::int64_t not_computed_bytes = 0, of_devices_left_out = 0;
  for (const RecordedProcess& process : processes) {
    for (const process::RecordedDevice* device : devices_of(process)) {
      devices.push_back(device_json(process, *device));
      if (device->last_ns == 0) continue;
      first_ns = last_ns == 0 ? device->first_ns : std::min(first_ns, device->first_ns);
      last_ns = std::max(last_ns, device->last_ns);
    }
    wait_ns += process.totals.wait_ns;
    not_kept_bytes += process.totals.not_kept_bytes;
    not_computed_bytes += process.totals.not_computed_bytes;
    calls_left_out += process.totals.calls_left_out;
    lines_left_out += process.totals.lines_left_out;
    of_devices_left_out += operations_left_out(process.totals);
  }
  const auto classes = [](const process::ProcessRecord& totals) { return totals.classes; };
  const auto evidence = [](const process::ProcessRecord& totals) { return totals.evidence; };
  OrderedJson summary = {{"format", "gpemu-run-1"},
                         {"processes", processes.size()},
                         {"first_ns", first_ns},
                         {"last_ns", last_ns},
                         {"wait_ns", wait_ns},
                         {"not_kept_bytes", not_kept_bytes},
                         {"copies", copies_json(processes)},
                         {"not_computed_bytes", not_computed_bytes},
                         {"not_computed", reads_json(processes)},
                         {"devices", std::move(devices)},
                         {"classes", sum_totals(processes, classes, kernels::kOperationClassNames)},
                         {"evidence", sum_totals(processes, evidence, cost::kEvidenceNames)},
                         {"not_supported", calls_json(processes)},
                         {"not_supported_left_out", calls_left_out},
                         {"operations_left_out", lines_left_out},
                         {"operations_of_devices_left_out", of_devices_left_out}};
  summary["communication"] = communication_of(processes);
  summary["utilization"] = utilization(summary);
  summary["verdict"] = program_verdict(summary);
  summary["without_work"] = without_work(summary, loaded);
  return summary;
}

std::string program_verdict(const OrderedJson& summary) {
  std::int64_t span = 0, busy = 0, computing = 0, blocked = 0, ordered = 0, exposed = 0;
  for (const OrderedJson& device : summary["devices"]) {
    const auto part = [&device](const char* name) { return device[name].get<std::int64_t>(); };
    span += part("last_ns") - part("first_ns");
    busy += part("busy_ns");
    computing += part("idle_host_computing_ns");
    blocked += part("idle_host_blocked_ns");
    ordered += part("idle_ordered_ns");
    const OrderedJson& collectives = device["collectives"];
    if (!collectives.is_null()) {
      exposed += std::min(collectives["exposed_ns"].get<std::int64_t>(), part("idle_ordered_ns"));
    }
  }
  const auto left_out = summary["operations_of_devices_left_out"].get<std::int64_t>();
  const std::string beyond =
      left_out == 0
          ? ""
          : fmt::format("; {} operations on GPUs beyond the first {} of a process are not included",
                        left_out, process::ProcessRecord::kMaxDevices);
  if (span <= 0) {
    const bool allocated = std::ranges::any_of(summary["devices"], [](const OrderedJson& device) {
      return device["peak_memory_bytes"].get<std::uint64_t>() > 0;
    });
    return (allocated ? "the program allocated memory, but gave the emulated GPU no work"
                      : "no CUDA call gave the emulated GPU work") +
           beyond;
  }
  const double share = percent(busy, span);
  if (2 * busy >= span) {
    return fmt::format("limited by the GPU: it is busy {:.1f} % of the time{}", share, beyond);
  }
  const std::int64_t most = std::max({computing, blocked, ordered});
  const char* const cause =
      most == blocked ? "limited by waiting: the program is blocked by its data, files, workers or "
                        "locks"
      : most == ordered && 2 * exposed >= ordered
          ? "limited by communication: work waits for collectives, or for the slowest rank"
      : most == computing
          ? "limited by the program's own computing: it gives the GPU too little work at a time"
          : "limited by ordering: work waits for other streams, devices or processes";
  return fmt::format("{}; the GPU is busy {:.1f} % of the time{}", cause, share, beyond);
}

}  // namespace gpemu::record
