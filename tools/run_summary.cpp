// SPDX-License-Identifier: Apache-2.0
#include "run_summary.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"

#include "text_table.hpp"

namespace gpemu::tools {
namespace {

using Json = nlohmann::ordered_json;

Result<std::vector<std::filesystem::path>> files_of(const std::filesystem::path& folder,
                                                    std::string_view extension) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  if (error) return fail(ErrorCode::kIo, "{}: {}", folder.string(), error.message());
  std::ranges::sort(files);
  return files;
}

Result<Json> parse(std::string_view text, const std::filesystem::path& path) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return fail(ErrorCode::kCorruptData, "{}: not a record of libgpemu.so", path.string());
  }
  return json;
}

/// Adds the entries of one process's list to the run's, by name.
void add_totals(Json& sums, const Json& entries) {
  for (const Json& entry : entries) {
    const auto same = std::ranges::find_if(
        sums, [&entry](const Json& sum) { return sum["name"] == entry["name"]; });
    if (same == sums.end()) {
      sums.push_back(entry);
      continue;
    }
    (*same)["count"] = (*same)["count"].get<std::int64_t>() + entry["count"].get<std::int64_t>();
    (*same)["time_ns"] =
        (*same)["time_ns"].get<std::int64_t>() + entry["time_ns"].get<std::int64_t>();
  }
}

std::int64_t total_ns(const Json& entries) {
  std::int64_t sum = 0;
  for (const Json& entry : entries) sum += entry["time_ns"].get<std::int64_t>();
  return sum;
}

double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
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

void by_time(Json& entries) {
  std::sort(entries.begin(), entries.end(), [](const Json& a, const Json& b) {
    return a["time_ns"].get<std::int64_t>() > b["time_ns"].get<std::int64_t>();
  });
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

}  // namespace

Result<Json> read_summary(const std::filesystem::path& folder) {
  Json summary = {{"processes", 0},
                  {"first_ns", 0},
                  {"last_ns", 0},
                  {"wait_ns", 0},
                  {"not_kept_bytes", 0},
                  {"devices", Json::array()},
                  {"classes", Json::array()},
                  {"evidence", Json::array()},
                  {"not_supported", Json::array()}};
  GPEMU_ASSIGN(const auto files, files_of(folder, ".json"));
  for (const auto& path : files) {
    GPEMU_ASSIGN(const std::string text, read_file(path));
    GPEMU_ASSIGN(const Json process, parse(text, path));
    if (process["last_ns"] == 0 && process["not_supported"].empty()) continue;
    summary["processes"] = summary["processes"].get<int>() + 1;
    // A process that only asked for what is not supported has no times.
    if (process["last_ns"] != 0) {
      const auto first = process["first_ns"].get<std::int64_t>();
      const auto last = summary["last_ns"].get<std::int64_t>();
      summary["first_ns"] =
          last == 0 ? first : std::min(first, summary["first_ns"].get<std::int64_t>());
      summary["last_ns"] = std::max(process["last_ns"].get<std::int64_t>(), last);
    }
    summary["wait_ns"] =
        summary["wait_ns"].get<std::int64_t>() + process["wait_ns"].get<std::int64_t>();
    summary["not_kept_bytes"] = summary["not_kept_bytes"].get<std::uint64_t>() +
                                process["not_kept_bytes"].get<std::uint64_t>();
    for (Json device : process["devices"]) {
      device["pid"] = process["pid"];
      summary["devices"].push_back(std::move(device));
    }
    add_totals(summary["classes"], process["classes"]);
    add_totals(summary["evidence"], process["evidence"]);
    for (const Json& call : process["not_supported"]) summary["not_supported"].push_back(call);
  }
  by_time(summary["classes"]);
  summary["utilization"] = utilization(summary);
  return summary;
}

std::string summary_text(const Json& summary) {
  if (summary["processes"] == 0) return "gpemu: the program gave the emulated GPU no work\n";
  const std::int64_t busy = total_ns(summary["classes"]);
  const std::int64_t span =
      summary["last_ns"].get<std::int64_t>() - summary["first_ns"].get<std::int64_t>();
  std::string text;
  TextTable table({"emulated GPU time", "operations", "s", "%"});
  for (const Json& entry : summary["classes"]) {
    const auto time = entry["time_ns"].get<std::int64_t>();
    table.add_row({entry["name"].get<std::string>(),
                   fmt::to_string(entry["count"].get<std::int64_t>()),
                   fmt::format("{:.3f}", static_cast<double>(time) * 1e-9),
                   fmt::format("{:.1f}", percent(time, busy))});
  }
  text += table.str();
  text += fmt::format(
      "span      {:.3f} s from the first operation to the end of the last; utilisation {:.1f} %\n",
      static_cast<double>(span) * 1e-9, 100 * summary["utilization"].get<double>());
  text += fmt::format("host      waited {:.3f} s for the GPU\n",
                      static_cast<double>(summary["wait_ns"].get<std::int64_t>()) * 1e-9);
  for (const Json& device : summary["devices"]) {
    text += fmt::format("memory    GPU {} ({}), process {}: peak {:.0f} of {:.0f} MiB\n",
                        device["index"].get<int>(), device["gpu"].get<std::string>(),
                        device["pid"].get<int>(), to_mib(device["peak_memory_bytes"].get<Bytes>()),
                        to_mib(device["memory_bytes"].get<Bytes>()));
  }
  text += fmt::format("evidence  {}\n", evidence_text(summary["evidence"]));
  if (const auto bytes = summary["not_kept_bytes"].get<Bytes>(); bytes > 0) {
    text += fmt::format(
        "not kept  {:.1f} MiB were read that large copies from pinned memory had written: zeros; "
        "--keep-data keeps them\n",
        to_mib(bytes));
  }
  for (const Json& call : summary["not_supported"]) {
    text += fmt::format("not supported: {} ({}), {} calls\n", call["function"].get<std::string>(),
                        call["library"].get<std::string>(), call["count"].get<std::int64_t>());
  }
  return text;
}

Result<std::string> read_trace(const std::filesystem::path& folder) {
  GPEMU_ASSIGN(const auto files, files_of(folder, ".work"));
  Json events = Json::array();
  for (const auto& path : files) {
    GPEMU_ASSIGN(const std::string text, read_file(path));
    const int pid = std::stoi(path.stem().string());
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      GPEMU_ASSIGN(const Json work, parse(line, path));
      if (work.contains("mark")) {
        events.push_back({{"ph", "i"},
                          {"name", work["text"]},
                          {"pid", pid},
                          {"tid", 0},
                          {"ts", static_cast<double>(work["time_ns"].get<std::int64_t>()) / 1e3}});
        continue;
      }
      const auto start = work["start_ns"].get<std::int64_t>();
      const auto end = work["end_ns"].get<std::int64_t>();
      events.push_back({{"ph", "X"},
                        {"name", work["name"]},
                        {"cat", work["class"]},
                        {"pid", pid},
                        {"tid", work["stream"]},
                        {"ts", static_cast<double>(start) / 1e3},
                        {"dur", static_cast<double>(end - start) / 1e3},
                        {"args", {{"bytes", work["bytes"]}, {"evidence", work["evidence"]}}}});
    }
  }
  return Json{{"traceEvents", std::move(events)}}.dump() + "\n";
}

}  // namespace gpemu::tools
