// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/trace.hpp"

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"
#include "gpemu/report/json_text.hpp"

namespace gpemu::record {
namespace {

using Json = nlohmann::json;

constexpr const char* kOperationsFormat = "gpemu-operations-2";

/// The events of a trace in a file. To the viewer, rows are processes and threads: a device of a
/// process is a process, and its streams are threads.
class TraceFile {
 public:
  TraceFile(AtomicFile file, const nlohmann::ordered_json& facts)
      : file_(std::move(file)),
        head_(R"({"displayTimeUnit": "ms", "otherData": {"run": )" + report::one_line(facts) +
              "}, ") {}

  [[nodiscard]] Result<void> add(const Json& event) {
    std::string line = report::one_line(event);
    line.insert(0, first_ ? head_ + "\"traceEvents\": [\n" : ",");
    first_ = false;
    return file_.append(line);
  }

  [[nodiscard]] Result<void> name_row(std::string_view what, int row, std::int64_t thread,
                                      std::string_view name) {
    return add(
        {{"ph", "M"}, {"name", what}, {"pid", row}, {"tid", thread}, {"args", {{"name", name}}}});
  }

  [[nodiscard]] Result<void> commit() {
    GPEMU_TRY(file_.append(first_ ? head_ + "\"traceEvents\": []}\n" : "]}\n"));
    return file_.commit();
  }

 private:
  AtomicFile file_;
  std::string head_;
  bool first_ = true;
};

/// Where the rows of sends and receives begin: beyond the numbers of streams.
constexpr std::int64_t kFirstTransferRow = 1'000'000'000;

double microseconds(const Json& time_ns) {
  return static_cast<double>(time_ns.get<std::int64_t>()) / 1e3;
}

/// Turns the entries of one process into events.
class ProcessTrace {
 public:
  /// `row` is the program's; those of its devices follow.
  ProcessTrace(TraceFile& file, const RecordedProcess& process, int row)
      : file_(file), process_(process), row_(row) {}

  [[nodiscard]] Result<void> name_rows() {
    GPEMU_TRY(file_.name_row("process_name", row_, 0,
                             fmt::format("program, process {}", process_.totals.process)));
    int row = row_;
    for (const process::RecordedDevice* device : devices_of(process_)) {
      const auto ordinal = static_cast<int>(device - process_.totals.devices);
      rows_[ordinal] = ++row;
      const std::string rank =
          device->ranks == 0 ? "" : fmt::format(", rank {} of {}", device->rank, device->ranks);
      GPEMU_TRY(file_.name_row("process_name", row, 0,
                               fmt::format("GPU {} {}, process {}{}", device->index, device->gpu,
                                           process_.totals.process, rank)));
      if (device->ranks == 0) continue;
      // Ranks come first, one below the other.
      GPEMU_TRY(file_.add({{"ph", "M"},
                           {"name", "process_sort_index"},
                           {"pid", row},
                           {"tid", 0},
                           {"args", {{"sort_index", device->rank - device->ranks}}}}));
    }
    return {};
  }

  [[nodiscard]] Result<void> add(const Json& entry) {
    if (entry.contains("collective")) return add_collective(entry);
    return entry.contains("op") ? add_operation(entry) : add_mark(entry);
  }

  /// Ends the ranges that the program left open.
  [[nodiscard]] Result<void> finish() {
    for (const auto& [thread, depth] : open_) {
      for (int i = 0; i < depth; ++i) {
        GPEMU_TRY(file_.add({{"ph", "E"}, {"pid", row_}, {"tid", thread}, {"ts", last_us_}}));
      }
    }
    return {};
  }

 private:
  [[nodiscard]] Result<void> add_operation(const Json& entry) {
    const auto known = rows_.find(entry["device"].get<int>());
    if (known == rows_.end()) return {};  // Left out, as the verdict says.
    const int row = known->second;
    const auto stream = entry["stream"].get<std::int64_t>();
    if (named_.insert({row, stream}).second) {
      GPEMU_TRY(file_.name_row("thread_name", row, stream, fmt::format("stream {}", stream)));
    }
    Json arguments = {{"evidence", entry["evidence"]}};
    for (const char* key : {"shape", "type", "compute_type", "bytes"}) {
      if (entry.contains(key)) arguments[key] = entry[key];
    }
    std::string& name = names_[entry["name"]];
    if (name.empty()) name = demangled(entry["name"]);
    const double start_us = microseconds(entry["start_ns"]);
    const double end_us = microseconds(entry["end_ns"]);
    last_us_ = std::max(last_us_, end_us);
    return file_.add({{"ph", "X"},
                      {"name", name},
                      {"cat", entry["class"]},
                      {"pid", row},
                      {"tid", stream},
                      {"ts", start_us},
                      {"dur", end_us - start_us},
                      {"args", std::move(arguments)}});
  }

  /// Returns the row of a collective in its device. Sends and receives of a group run side by side,
  /// so each direction has a row of its own.
  [[nodiscard]] Result<std::int64_t> collective_row(const Json& entry, int device_row) {
    const auto stream = entry["stream"].get<std::int64_t>();
    std::int64_t row = stream;
    std::string name = fmt::format("stream {}", stream);
    if (entry.contains("peer")) {
      name += fmt::format(", {} with rank {}", entry["name"].get<std::string>(),
                          entry["peer"].get<std::int64_t>());
      const auto [known, added] = transfer_rows_.emplace(
          name, kFirstTransferRow + static_cast<std::int64_t>(transfer_rows_.size()));
      row = known->second;
    }
    if (named_.insert({device_row, row}).second) {
      GPEMU_TRY(file_.name_row("thread_name", device_row, row, name));
    }
    return row;
  }

  /// The names of the arguments are those of the traces of NCCL's own profiler.
  [[nodiscard]] static Json arguments_of(const Json& entry) {
    Json arguments = {{"CommHash", entry["communicator"]},
                      {"SeqNum", entry["number"]},
                      {"Rank", entry["rank"]},
                      {"Ranks", entry["ranks"]},
                      {"Datatype", entry["type"]},
                      {"Bytes", entry["bytes"]}};
    if (entry.contains("peer")) arguments["Peer"] = entry["peer"];
    if (!entry.contains("end_ns")) return arguments;
    const auto time = [&entry](const char* name) { return entry[name].get<std::int64_t>(); };
    const double moving_us = static_cast<double>(time("end_ns") - time("start_ns")) / 1e3;
    arguments["waiting (us)"] = static_cast<double>(time("start_ns") - time("arrived_ns")) / 1e3;
    arguments["moving (us)"] = moving_us;
    if (moving_us <= 0) return arguments;
    const double bandwidth = entry["bytes"].get<double>() / moving_us * 1e-3;
    arguments["algbw (GB/s)"] = bandwidth;
    arguments["busbw (GB/s)"] = bandwidth * entry["bus_factor"].get<double>();
    return arguments;
  }

  [[nodiscard]] Result<void> add_collective(const Json& entry) {
    const auto known = rows_.find(entry["device"].get<int>());
    if (known == rows_.end()) return {};  // Left out, as the verdict says.
    GPEMU_ASSIGN(const std::int64_t row, collective_row(entry, known->second));
    const std::string name = entry["name"];
    Json event = {{"cat", "collective"}, {"pid", known->second}, {"tid", row}};
    if (!entry.contains("end_ns")) {
      event["ph"] = "i";
      event["s"] = "t";
      event["name"] = name + " that did not end";
      event["ts"] = microseconds(entry["asked_ns"]);
      event["args"] = arguments_of(entry);
      return file_.add(event);
    }
    const double arrived_us = microseconds(entry["arrived_ns"]);
    const double end_us = microseconds(entry["end_ns"]);
    last_us_ = std::max(last_us_, end_us);
    event["ph"] = "X";
    event["ts"] = arrived_us;
    Json wait = event;
    event["name"] = name;
    event["dur"] = end_us - arrived_us;
    event["args"] = arguments_of(entry);
    GPEMU_TRY(file_.add(event));
    if (entry["start_ns"] == entry["arrived_ns"]) return {};
    wait["name"] = "waiting for other ranks";
    wait["dur"] = microseconds(entry["start_ns"]) - arrived_us;
    if (entry.contains("waited_for")) wait["args"] = {{"last GPU", entry["waited_for"]}};
    return file_.add(wait);
  }

  [[nodiscard]] Result<void> add_mark(const Json& entry) {
    const std::string kind = entry["mark"];
    // A wait shows as a gap of the host, and uses of events as gaps of the streams.
    if (kind == "wait" || kind.starts_with("event_")) return {};
    const auto thread = entry["thread"].get<std::int64_t>();
    if (named_.insert({row_, thread}).second) {
      GPEMU_TRY(file_.name_row("thread_name", row_, thread,
                               fmt::format("NVTX ranges, thread {}", thread)));
    }
    last_us_ = std::max(last_us_, microseconds(entry["time_ns"]));
    Json event = {
        {"cat", "nvtx"}, {"pid", row_}, {"tid", thread}, {"ts", microseconds(entry["time_ns"])}};
    if (kind == "push") {
      event["ph"] = "B";
      event["name"] = entry["text"];
      ++open_[thread];
    } else if (kind == "pop") {
      if (open_[thread] == 0) return {};
      event["ph"] = "E";
      --open_[thread];
    } else if (kind == "start" || kind == "end") {
      // Overlapping ranges with the same name cannot be told apart: the last ends first.
      auto& ids = started_[entry["text"]];
      if (kind == "start") ids.push_back(next_id_++);
      if (ids.empty()) return {};
      event["ph"] = kind == "start" ? "b" : "e";
      event["name"] = entry["text"];
      event["id"] = ids.back();
      if (kind == "end") ids.pop_back();
    } else {
      event["ph"] = "i";
      event["s"] = "p";
      event["name"] = kind == "instant" ? entry["text"].get<std::string>() : kind;
    }
    return file_.add(event);
  }

  TraceFile& file_;
  const RecordedProcess& process_;
  int row_;
  std::map<int, int> rows_;                            ///< by device.
  std::map<std::string, std::int64_t> transfer_rows_;  ///< by name.
  std::set<std::pair<int, std::int64_t>> named_;
  std::unordered_map<std::string, std::string> names_;
  std::map<std::int64_t, int> open_;  ///< ranges, by thread.
  std::unordered_map<std::string, std::vector<int>> started_;
  int next_id_ = 1;
  double last_us_ = 0;
};

}  // namespace

namespace {

/// Returns the processes in the order of their first ranks; those without come last.
std::vector<std::reference_wrapper<const RecordedProcess>> by_rank(
    const std::vector<RecordedProcess>& processes) {
  std::vector<std::reference_wrapper<const RecordedProcess>> sorted(processes.begin(),
                                                                    processes.end());
  std::ranges::stable_sort(sorted, {}, [](const RecordedProcess& process) {
    std::int32_t first = std::numeric_limits<std::int32_t>::max();
    for (const process::RecordedDevice* device : devices_of(process)) {
      if (device->ranks > 0) first = std::min(first, device->rank);
    }
    return first;
  });
  return sorted;
}

}  // namespace

std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return text == nullptr ? name : text.get();
}

Result<void> write_trace(const std::filesystem::path& path,
                         const std::vector<RecordedProcess>& processes,
                         const nlohmann::ordered_json& facts) {
  GPEMU_ASSIGN(AtomicFile output, AtomicFile::create(path));
  TraceFile file(std::move(output), facts);
  int row = 1;
  for (const RecordedProcess& process : by_rank(processes)) {
    ProcessTrace trace(file, process, row);
    row += 1 + static_cast<int>(devices_of(process).size());
    GPEMU_TRY(trace.name_rows());
    GPEMU_TRY(for_each_entry(process, [&trace](Json& entry) { return trace.add(entry); }));
    GPEMU_TRY(trace.finish());
  }
  return file.commit();
}

Result<void> write_operations(const std::filesystem::path& path,
                              const std::vector<RecordedProcess>& processes,
                              const nlohmann::ordered_json& facts) {
  GPEMU_ASSIGN(AtomicFile file, AtomicFile::create(path));
  nlohmann::ordered_json run = {{"format", kOperationsFormat}};
  run.update(facts);
  GPEMU_TRY(file.append(report::one_line(run)));
  for (const RecordedProcess& process : processes) {
    GPEMU_ASSIGN(const ProcessLines lines, ProcessLines::read(process));
    nlohmann::ordered_json devices = nlohmann::ordered_json::array();
    for (const process::RecordedDevice* device : devices_of(process)) {
      devices.push_back({{"device", device - process.totals.devices},
                         {"index", device->index},
                         {"gpu", device->gpu}});
    }
    const nlohmann::ordered_json head = {{"process", process.totals.process},
                                         {"devices", std::move(devices)},
                                         {"lines", lines.count()},
                                         {"lines_left_out", process.totals.lines_left_out}};
    GPEMU_TRY(file.append(report::one_line(head)));
    GPEMU_TRY(
        lines.for_each([&file](const std::string& line) { return file.append(line + "\n"); }));
  }
  return file.commit();
}

}  // namespace gpemu::record
