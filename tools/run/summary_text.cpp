// SPDX-License-Identifier: Apache-2.0
#include "run/summary_text.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "gpemu/base/units.hpp"
#include "gpemu/cost/estimate.hpp"
#include "gpemu/report/number_text.hpp"
#include "gpemu/report/text_table.hpp"

namespace gpemu::tools {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// How many devices, calls and kernels the text lists; the rest is only counted.
constexpr std::size_t kMaxDevices = 8;
constexpr std::size_t kMaxCalls = 10;
constexpr std::size_t kMaxReads = 3;

double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::int64_t total_ns(const OrderedJson& entries) {
  std::int64_t sum = 0;
  for (const OrderedJson& entry : entries) sum += entry["time_ns"].get<std::int64_t>();
  return sum;
}

/// Reports how long the program waited because the host moved bytes too late, from 1 ms on.
std::string late_text(const OrderedJson& copies) {
  constexpr std::int64_t kNoteworthyNs = 1'000'000;
  const auto waited_ns = copies["late_wait_ns"].get<std::int64_t>();
  if (waited_ns < kNoteworthyNs) return {};
  const auto moving_ns = copies["moving_ns"].get<std::int64_t>();
  const auto bytes = copies["moved_bytes"].get<double>();
  const std::string rate = moving_ns == 0 ? ""
                                          : fmt::format(" (large copies ran at {:.1f} GB/s)",
                                                        bytes / static_cast<double>(moving_ns));
  return fmt::format(
      "late      the program waited {} for the bytes of large copies and collectives: this host "
      "moves them more slowly than the GPU's links{}; --drop-data avoids it for copies from pinned "
      "memory\n",
      time_text(waited_ns), rate);
}

/// Reports reads of values that no kernel computed.
std::string reads_text(const OrderedJson& summary) {
  const auto bytes = summary["not_computed_bytes"].get<std::int64_t>();
  if (bytes == 0) return "";
  std::string text = fmt::format(
      "values    the program read {} bytes that were not computed: zeros, or values from before an "
      "in-place update\n",
      bytes);
  const OrderedJson& reads = summary["not_computed"];
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

std::string class_table(const OrderedJson& classes, int columns) {
  const std::int64_t whole = total_ns(classes);
  report::TextTable table({"emulated GPU time", "operations", "s", "%"});
  for (const OrderedJson& entry : classes) {
    const auto time = entry["time_ns"].get<std::int64_t>();
    table.add_row({entry["name"].get<std::string>(),
                   fmt::to_string(entry["count"].get<std::int64_t>()),
                   fmt::format("{:.3f}", static_cast<double>(time) * 1e-9),
                   fmt::format("{:.1f}", percent(time, whole))});
  }
  return table.str(columns);
}

/// Returns what a device spent on collectives, as a line.
std::string collectives_text(const OrderedJson& collectives) {
  if (collectives.is_null()) return {};
  const auto part = [&collectives](const char* name) {
    return collectives[name].get<std::int64_t>();
  };
  std::string text = fmt::format("  NCCL    rank {} of {}: ", part("rank"), part("ranks"));
  const std::int64_t ended = part("count") - part("not_ended");
  if (ended > 0) {
    text += fmt::format(
        "{} collective{} took {}: {} waiting for other ranks, {} moving {:.1f} MiB; meanwhile no "
        "kernel ran for {}",
        ended, ended == 1 ? "" : "s", time_text(part("time_ns")), time_text(part("waiting_ns")),
        time_text(part("moving_ns")), to_mib(collectives["bytes"].get<Bytes>()),
        time_text(part("exposed_ns")));
  }
  if (part("not_ended") > 0) {
    text += fmt::format("{}{} did not end", ended > 0 ? "; " : "", part("not_ended"));
  }
  return text + "\n";
}

std::string device_text(const OrderedJson& device) {
  const auto busy = device["busy_ns"].get<std::int64_t>();
  const std::int64_t span =
      device["last_ns"].get<std::int64_t>() - device["first_ns"].get<std::int64_t>();
  std::string text = fmt::format("GPU {} ({}), process {}\n", device["index"].get<int>(),
                                 device["gpu"].get<std::string>(), device["pid"].get<int>());
  if (device["last_ns"] != 0) {
    text += fmt::format("  busy    {} of {} ({:.1f} %) from the first operation to the last\n",
                        time_text(busy), time_text(span), percent(busy, span));
    text += fmt::format("  idle    {}\n", idle_text(device));
  }
  text += collectives_text(device["collectives"]);
  text += fmt::format("  memory  peak {:.0f} of {:.0f} MiB\n",
                      to_mib(device["peak_memory_bytes"].get<Bytes>()),
                      to_mib(device["memory_bytes"].get<Bytes>()));
  return text;
}

/// Returns the mean collective of each kind as a table, and the rank that came last the longest.
std::string communication_text(const OrderedJson& communication, int columns) {
  const OrderedJson& kinds = communication["kinds"];
  if (kinds.empty()) return {};
  report::TextTable table({"mean of all ranks", "ranks", "calls", "MiB", "waiting (us)",
                           "moving (us)", "algbw (GB/s)", "busbw (GB/s)"});
  for (const OrderedJson& kind : kinds) {
    const auto mean = [&kind](const char* name) {
      return kind[name].get<double>() / kind["count"].get<double>();
    };
    table.add_row({kind["name"].get<std::string>(),
                   fmt::to_string(kind["ranks"].get<std::int64_t>()),
                   fmt::to_string(kind["count"].get<std::int64_t>()),
                   report::rounded(mean("bytes") / static_cast<double>(kMiB)),
                   fmt::format("{:.1f}", mean("waiting_ns") * 1e-3),
                   fmt::format("{:.1f}", mean("moving_ns") * 1e-3),
                   fmt::format("{:.2f}", kind["algorithm_bytes_per_s"].get<double>() * 1e-9),
                   fmt::format("{:.2f}", kind["bus_bytes_per_s"].get<double>() * 1e-9)});
  }
  return table.str(columns);
}

std::string without_work_text(const OrderedJson& processes) {
  if (processes.empty()) return {};
  const OrderedJson& first = processes.front();
  const std::string others =
      processes.size() > 1 ? fmt::format(" (and {} more processes)", processes.size() - 1) : "";
  return fmt::format(
      "on the CPU  {}, process {}{}, loaded {} and launched no kernel: it computed on the CPU, or "
      "it needs something unsupported\n",
      std::filesystem::path(first["program"].get<std::string>()).filename().string(),
      first["pid"].get<std::int64_t>(), others, first["library"].get<std::string>());
}

std::string guessed_text(const OrderedJson& evidence) {
  const std::string_view name = cost::evidence_name(cost::Evidence::kGuessed);
  const auto guessed = std::ranges::find_if(
      evidence, [name](const OrderedJson& entry) { return entry["name"] == name; });
  if (guessed == evidence.end()) return {};
  return fmt::format(
      "guessed   {:.1f} % of the GPU's time: {} launches of kernels that are not recognised, whose "
      "times may be far off; --ops lists them\n",
      percent((*guessed)["time_ns"].get<std::int64_t>(), total_ns(evidence)),
      (*guessed)["count"].get<std::int64_t>());
}

}  // namespace

std::string time_text(std::int64_t time_ns) {
  const auto time = static_cast<double>(time_ns);
  if (time_ns >= 1'000'000'000) return report::rounded(time * 1e-9) + " s";
  if (time_ns >= 1'000'000) return report::rounded(time * 1e-6) + " ms";
  return report::rounded(time * 1e-3) + " us";
}

std::string idle_text(const OrderedJson& device) {
  const auto part = [&device](const char* name) { return device[name].get<std::int64_t>(); };
  const std::int64_t idle = part("idle_ns");
  std::string text = time_text(idle);
  if (part("idle_unasked_ns") > 0) {
    text += fmt::format(
        ": {} without any work queued (the program computed for about {}, was blocked for {})",
        time_text(part("idle_unasked_ns")), time_text(part("idle_host_computing_ns")),
        time_text(part("idle_host_blocked_ns")));
  }
  if (part("idle_ordered_ns") > 0) {
    text += fmt::format("{} {} waiting for others' work", part("idle_unasked_ns") > 0 ? "," : ":",
                        time_text(part("idle_ordered_ns")));
  }
  return text;
}

std::string waited_for_text(const OrderedJson& communication) {
  const OrderedJson& waited_for = communication["waited_for"];
  if (waited_for.empty()) return {};
  const OrderedJson& most = waited_for.front();
  const std::string rank =
      most["rank"].is_null()
          ? fmt::format("the rank on GPU {}", most["index"].get<std::int64_t>())
          : fmt::format("rank {} (GPU {}, process {})", most["rank"].get<std::int64_t>(),
                        most["index"].get<std::int64_t>(), most["pid"].get<std::int64_t>());
  const auto mean_ns = most["mean_ns"].get<std::int64_t>();
  const bool has_one_other = mean_ns == most["time_ns"].get<std::int64_t>();
  return fmt::format("{} made the others wait {}{}", rank, time_text(mean_ns),
                     has_one_other ? "" : " on average");
}

std::string evidence_text(const OrderedJson& evidence) {
  const std::int64_t whole = total_ns(evidence);
  std::string text;
  for (const OrderedJson& entry : evidence) {
    text += fmt::format("{}{:.1f} % {}", text.empty() ? "" : ", ",
                        percent(entry["time_ns"].get<std::int64_t>(), whole),
                        entry["name"].get<std::string>());
  }
  return text;
}

std::string summary_text(const OrderedJson& summary, int columns) {
  std::string text;
  text = fmt::format("gpemu: {}\n", summary["verdict"].get<std::string>());
  text += without_work_text(summary["without_work"]) + guessed_text(summary["evidence"]);
  if (!summary["classes"].empty()) text += "\n" + class_table(summary["classes"], columns);
  const OrderedJson& devices = summary["devices"];
  for (std::size_t i = 0; i < std::min(devices.size(), kMaxDevices); ++i) {
    text += device_text(devices[i]);
  }
  if (devices.size() > kMaxDevices) {
    text += fmt::format("and {} more GPUs; --json lists them\n", devices.size() - kMaxDevices);
  }
  text += communication_text(summary["communication"], columns);
  if (const std::string waits = waited_for_text(summary["communication"]); !waits.empty()) {
    text += "ranks     " + waits + "\n";
  }
  if (!summary["classes"].empty()) {
    text += fmt::format("host      waited {} for the GPU\n",
                        time_text(summary["wait_ns"].get<std::int64_t>()));
    text += fmt::format("evidence  {}\n", evidence_text(summary["evidence"]));
    text += fmt::format(
        "kernels   ran for {:.1f} % of the run, which monitoring tools show as utilisation\n",
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
        "not kept  the program read {:.1f} MiB that large copies from pinned memory wrote: zeros, "
        "because of --drop-data\n",
        to_mib(bytes));
  }
  text += reads_text(summary);
  const OrderedJson& calls = summary["not_supported"];
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
