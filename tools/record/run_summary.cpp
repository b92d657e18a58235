// SPDX-License-Identifier: Apache-2.0
#include "record/run_summary.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/units.hpp"
#include "gpemu/cost/estimate.hpp"
#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/report/number_text.hpp"
#include "gpemu/report/text_table.hpp"

namespace gpemu::tools {
namespace {

using Json = nlohmann::ordered_json;

/// Devices, calls and kernels that the text names; the rest is counted.
constexpr std::size_t kMaxDevices = 8;
constexpr std::size_t kMaxCalls = 10;
constexpr std::size_t kMaxReads = 3;

double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::int64_t total_ns(const Json& entries) {
  std::int64_t sum = 0;
  for (const Json& entry : entries) sum += entry["time_ns"].get<std::int64_t>();
  return sum;
}

/// Sums a list of totals of all processes; the longest first.
template <std::size_t Count>
Json sum_totals(const std::vector<RecordedProcess>& processes, const auto& totals_of,
                const std::array<std::string_view, Count>& names) {
  Json sums = Json::array();
  for (std::size_t i = 0; i < Count; ++i) {
    cuda::RecordedTotal sum;
    for (const RecordedProcess& process : processes) {
      const cuda::RecordedTotal& total = totals_of(process.totals)[i];
      sum.count += total.count;
      sum.time_ns += total.time_ns;
    }
    if (sum.count == 0) continue;
    sums.push_back({{"name", names[i]}, {"count", sum.count}, {"time_ns", sum.time_ns}});
  }
  std::stable_sort(sums.begin(), sums.end(), [](const Json& a, const Json& b) {
    return a["time_ns"].get<std::int64_t>() > b["time_ns"].get<std::int64_t>();
  });
  return sums;
}

/// Returns the share of the run for which kernels ran on its devices, as a watcher sees it. Copies
/// run beside them.
double utilization(const Json& summary) {
  std::set<int> devices;
  for (const Json& device : summary["devices"]) devices.insert(device["index"].get<int>());
  std::int64_t busy = 0;
  for (const Json& entry : summary["classes"]) {
    if (entry["name"] != "copy") busy += entry["time_ns"].get<std::int64_t>();
  }
  const std::int64_t span =
      summary["last_ns"].get<std::int64_t>() - summary["first_ns"].get<std::int64_t>();
  return percent(busy, span * static_cast<std::int64_t>(devices.size())) / 100;
}

Json device_json(const RecordedProcess& process, const cuda::RecordedDevice& device) {
  const std::int64_t span_ns = device.operations > 0 ? device.last_ns - device.first_ns : 0;
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
          {"memory_bytes", device.memory_bytes}};
}

Json calls_json(const std::vector<RecordedProcess>& processes) {
  std::map<std::pair<std::string, std::string>, std::int64_t> counts;
  for (const RecordedProcess& process : processes) {
    for (const cuda::RecordedCall& call : process.totals.calls) {
      if (call.count > 0) counts[{call.library, call.function}] += call.count;
    }
  }
  Json calls = Json::array();
  for (const auto& [function, count] : counts) {
    calls.push_back({{"library", function.first}, {"function", function.second}, {"count", count}});
  }
  return calls;
}

/// What became of the bytes of large copies.
Json copies_json(const std::vector<RecordedProcess>& processes) {
  const auto sum = [&processes](std::int64_t cuda::ProcessRecord::* field) {
    std::int64_t total = 0;
    for (const RecordedProcess& process : processes) total += process.totals.*field;
    return total;
  };
  return {{"moved_bytes", sum(&cuda::ProcessRecord::moved_bytes)},
          {"moving_ns", sum(&cuda::ProcessRecord::moving_ns)},
          {"late_ns", sum(&cuda::ProcessRecord::late_ns)},
          {"late_wait_ns", sum(&cuda::ProcessRecord::late_wait_ns)},
          {"not_locked_bytes", sum(&cuda::ProcessRecord::not_locked_bytes)}};
}

/// Says that the program waited for bytes that the host moved too late, if that is 1 ms or more.
std::string late_text(const Json& copies) {
  constexpr std::int64_t kNoteworthyNs = 1'000'000;
  const auto waited_ns = copies["late_wait_ns"].get<std::int64_t>();
  if (waited_ns < kNoteworthyNs) return {};
  const auto moving_ns = copies["moving_ns"].get<std::int64_t>();
  const auto bytes = copies["moved_bytes"].get<double>();
  const std::string rate = moving_ns == 0
                               ? ""
                               : fmt::format("; its memory gave large copies {:.1f} GB/s",
                                             bytes / static_cast<double>(moving_ns));
  return fmt::format(
      "late      the program waited {} for bytes that this host moves more slowly than the link{}; "
      "--drop-data moves none\n",
      time_text(waited_ns), rate);
}

/// What the program read of each kernel that was not computed; the most bytes first.
Json reads_json(const std::vector<RecordedProcess>& processes) {
  std::map<std::string, cuda::RecordedRead> sums;
  for (const RecordedProcess& process : processes) {
    for (const cuda::RecordedRead& read : process.totals.reads) {
      if (read.count == 0) continue;
      cuda::RecordedRead& sum = sums[read.writer];
      sum.count += read.count;
      sum.bytes += read.bytes;
    }
  }
  Json reads = Json::array();
  for (const auto& [writer, sum] : sums) {
    reads.push_back({{"writer", writer}, {"count", sum.count}, {"bytes", sum.bytes}});
  }
  std::stable_sort(reads.begin(), reads.end(), [](const Json& a, const Json& b) {
    return a["bytes"].get<std::int64_t>() > b["bytes"].get<std::int64_t>();
  });
  return reads;
}

/// Says what the program read that no kernel computed.
std::string reads_text(const Json& summary) {
  const auto bytes = summary["not_computed_bytes"].get<std::int64_t>();
  if (bytes == 0) return "";
  std::string text = fmt::format(
      "values    {} bytes were read that were not computed: zeros, or what an update in place "
      "left\n",
      bytes);
  const Json& reads = summary["not_computed"];
  for (std::size_t i = 0; i < std::min(reads.size(), kMaxReads); ++i) {
    text +=
        fmt::format("          {} bytes in {} reads of {}\n", reads[i]["bytes"].get<std::int64_t>(),
                    reads[i]["count"].get<std::int64_t>(), reads[i]["writer"].get<std::string>());
  }
  if (reads.size() > kMaxReads) {
    text += fmt::format("          and of {} more kernels; --json lists them\n",
                        reads.size() - kMaxReads);
  }
  return text;
}

std::string class_table(const Json& classes) {
  const std::int64_t whole = total_ns(classes);
  report::TextTable table({"emulated GPU time", "operations", "s", "%"});
  for (const Json& entry : classes) {
    const auto time = entry["time_ns"].get<std::int64_t>();
    table.add_row({entry["name"].get<std::string>(),
                   fmt::to_string(entry["count"].get<std::int64_t>()),
                   fmt::format("{:.3f}", static_cast<double>(time) * 1e-9),
                   fmt::format("{:.1f}", percent(time, whole))});
  }
  return table.str();
}

std::string device_text(const Json& device) {
  const auto busy = device["busy_ns"].get<std::int64_t>();
  const std::int64_t span =
      device["last_ns"].get<std::int64_t>() - device["first_ns"].get<std::int64_t>();
  std::string text = fmt::format("GPU {} ({}), process {}\n", device["index"].get<int>(),
                                 device["gpu"].get<std::string>(), device["pid"].get<int>());
  if (device["operations"] != 0) {
    text += fmt::format("  busy    {} of {} ({:.1f} %) from the first operation to the last\n",
                        time_text(busy), time_text(span), percent(busy, span));
    text += fmt::format("  idle    {}\n", idle_text(device));
  }
  text += fmt::format("  memory  peak {:.0f} of {:.0f} MiB\n",
                      to_mib(device["peak_memory_bytes"].get<Bytes>()),
                      to_mib(device["memory_bytes"].get<Bytes>()));
  return text;
}

/// Lists the processes that asked for libraries of NVIDIA's where none of the run launched a
/// kernel.
Json without_work(const Json& classes, const std::vector<LoadedLibrary>& loaded) {
  Json processes = Json::array();
  const bool launched = std::ranges::any_of(
      classes, [](const Json& entry) { return entry["name"] != "copy" && entry["name"] != "set"; });
  if (launched) return processes;
  for (const LoadedLibrary& one : loaded) {
    processes.push_back({{"pid", one.process}, {"program", one.program}, {"library", one.library}});
  }
  return processes;
}

std::string without_work_text(const Json& processes) {
  if (processes.empty()) return {};
  const Json& first = processes.front();
  const std::string others =
      processes.size() > 1 ? fmt::format(" (and {} more processes)", processes.size() - 1) : "";
  return fmt::format(
      "on the CPU  {}, process {}{}, loaded {} and launched no kernel: it computed on the CPU, or "
      "needs what is not supported\n",
      std::filesystem::path(first["program"].get<std::string>()).filename().string(),
      first["pid"].get<std::int64_t>(), others, first["library"].get<std::string>());
}

std::string guessed_text(const Json& evidence) {
  const std::string_view name = cost::evidence_name(cost::Evidence::kGuessed);
  const auto guessed =
      std::ranges::find_if(evidence, [name](const Json& entry) { return entry["name"] == name; });
  if (guessed == evidence.end()) return {};
  return fmt::format(
      "guessed   {:.1f} % of the GPU's time: {} launches of kernels that are not recognised, whose "
      "times may be far off; --ops lists them\n",
      percent((*guessed)["time_ns"].get<std::int64_t>(), total_ns(evidence)),
      (*guessed)["count"].get<std::int64_t>());
}

}  // namespace

Json summarise(const std::vector<RecordedProcess>& processes,
               const std::vector<LoadedLibrary>& loaded) {
  Json devices = Json::array();
  std::int64_t first_ns = 0, last_ns = 0;
  std::int64_t wait_ns = 0, not_kept_bytes = 0, calls_left_out = 0, lines_left_out = 0;
  std::int64_t not_computed_bytes = 0;
  for (const RecordedProcess& process : processes) {
    for (const cuda::RecordedDevice* device : devices_of(process)) {
      devices.push_back(device_json(process, *device));
      if (device->operations == 0) continue;
      first_ns = last_ns == 0 ? device->first_ns : std::min(first_ns, device->first_ns);
      last_ns = std::max(last_ns, device->last_ns);
    }
    wait_ns += process.totals.wait_ns;
    not_kept_bytes += process.totals.not_kept_bytes;
    not_computed_bytes += process.totals.not_computed_bytes;
    calls_left_out += process.totals.calls_left_out;
    lines_left_out += process.totals.lines_left_out;
  }
  const auto classes = [](const cuda::ProcessRecord& totals) { return totals.classes; };
  const auto evidence = [](const cuda::ProcessRecord& totals) { return totals.evidence; };
  Json summary = {{"format", "gpemu-run-1"},
                  {"processes", processes.size()},
                  {"first_ns", first_ns},
                  {"last_ns", last_ns},
                  {"wait_ns", wait_ns},
                  {"not_kept_bytes", not_kept_bytes},
                  {"copies", copies_json(processes)},
                  {"not_computed_bytes", not_computed_bytes},
                  {"not_computed", reads_json(processes)},
                  {"devices", std::move(devices)},
                  {"classes", sum_totals(processes, classes, cost::kOperationClassNames)},
                  {"evidence", sum_totals(processes, evidence, cost::kEvidenceNames)},
                  {"not_supported", calls_json(processes)},
                  {"not_supported_left_out", calls_left_out},
                  {"operations_left_out", lines_left_out}};
  summary["utilization"] = utilization(summary);
  summary["verdict"] = program_verdict(summary);
  summary["without_work"] = without_work(summary["classes"], loaded);
  return summary;
}

std::string program_verdict(const Json& summary) {
  std::int64_t span = 0, busy = 0, computing = 0, blocked = 0, ordered = 0;
  for (const Json& device : summary["devices"]) {
    const auto part = [&device](const char* name) { return device[name].get<std::int64_t>(); };
    span += part("last_ns") - part("first_ns");
    busy += part("busy_ns");
    computing += part("idle_host_computing_ns");
    blocked += part("idle_host_blocked_ns");
    ordered += part("idle_ordered_ns");
  }
  if (span <= 0) return "the program gave the emulated GPU no work";
  const double share = percent(busy, span);
  if (2 * busy >= span) {
    return fmt::format("limited by the GPU: it is busy {:.1f} % of the time", share);
  }
  const std::int64_t most = std::max({computing, blocked, ordered});
  const char* const cause =
      most == blocked ? "limited by waiting: the program is blocked by its data, files, workers or "
                        "locks"
      : most == computing
          ? "limited by the program's own computing: it asks for too little at a time"
          : "limited by order: work waits for other streams, devices or processes";
  return fmt::format("{}; the GPU is busy {:.1f} % of the time", cause, share);
}

std::string time_text(std::int64_t time_ns) {
  const auto time = static_cast<double>(time_ns);
  if (time_ns >= 1'000'000'000) return report::rounded(time * 1e-9) + " s";
  if (time_ns >= 1'000'000) return report::rounded(time * 1e-6) + " ms";
  return report::rounded(time * 1e-3) + " us";
}

std::string idle_text(const Json& device) {
  const auto part = [&device](const char* name) { return device[name].get<std::int64_t>(); };
  const std::int64_t idle = part("idle_ns");
  std::string text = time_text(idle);
  if (part("idle_unasked_ns") > 0) {
    text += fmt::format(
        ": {} with nothing asked of it (the program computed for about {}, "
        "was blocked for {})",
        time_text(part("idle_unasked_ns")), time_text(part("idle_host_computing_ns")),
        time_text(part("idle_host_blocked_ns")));
  }
  if (part("idle_ordered_ns") > 0) {
    text += fmt::format("{} {} behind others' work", part("idle_unasked_ns") > 0 ? "," : ":",
                        time_text(part("idle_ordered_ns")));
  }
  return text;
}

std::string evidence_text(const Json& evidence) {
  const std::int64_t whole = total_ns(evidence);
  std::string text;
  for (const Json& entry : evidence) {
    text += fmt::format("{}{:.1f} % {}", text.empty() ? "" : ", ",
                        percent(entry["time_ns"].get<std::int64_t>(), whole),
                        entry["name"].get<std::string>());
  }
  return text;
}

std::string summary_text(const Json& summary) {
  std::string text;
  text = fmt::format("gpemu: {}\n", summary["verdict"].get<std::string>());
  text += without_work_text(summary["without_work"]) + guessed_text(summary["evidence"]);
  if (!summary["classes"].empty()) text += "\n" + class_table(summary["classes"]);
  const Json& devices = summary["devices"];
  for (std::size_t i = 0; i < std::min(devices.size(), kMaxDevices); ++i) {
    text += device_text(devices[i]);
  }
  if (devices.size() > kMaxDevices) {
    text += fmt::format("and {} more GPUs of processes; --json lists them\n",
                        devices.size() - kMaxDevices);
  }
  if (!summary["classes"].empty()) {
    text += fmt::format("host      waited {} for the GPU\n",
                        time_text(summary["wait_ns"].get<std::int64_t>()));
    text += fmt::format("evidence  {}\n", evidence_text(summary["evidence"]));
    text +=
        fmt::format("kernels   ran for {:.1f} % of the run: what a watcher sees as utilisation\n",
                    100 * summary["utilization"].get<double>());
  }
  text += late_text(summary["copies"]);
  if (const auto bytes = summary["copies"]["not_locked_bytes"].get<Bytes>(); bytes > 0) {
    text += fmt::format(
        "unlocked  {:.1f} MiB of pinned memory could not be locked and may be swapped out: "
        "`ulimit -l` is too low\n",
        to_mib(bytes));
  }
  if (const auto bytes = summary["not_kept_bytes"].get<Bytes>(); bytes > 0) {
    text += fmt::format(
        "not kept  {:.1f} MiB were read that large copies from pinned memory had written: zeros, "
        "as --drop-data says\n",
        to_mib(bytes));
  }
  text += reads_text(summary);
  const Json& calls = summary["not_supported"];
  for (std::size_t i = 0; i < std::min(calls.size(), kMaxCalls); ++i) {
    text += fmt::format(
        "not supported: {} ({}), called {} times\n", calls[i]["function"].get<std::string>(),
        calls[i]["library"].get<std::string>(), calls[i]["count"].get<std::int64_t>());
  }
  if (calls.size() > kMaxCalls) {
    text += fmt::format("not supported: {} more functions; --json lists them\n",
                        calls.size() - kMaxCalls);
  }
  return text;
}

}  // namespace gpemu::tools
