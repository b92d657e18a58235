// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/process_records.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/base/text.hpp"
#include "gpemu/report/json_text.hpp"

namespace gpemu::record {
namespace {

using Json = nlohmann::json;

std::int64_t first_ns(const RecordedProcess& process) {
  std::int64_t first = INT64_MAX;
  for (const process::RecordedDevice* device : devices_of(process)) {
    if (device->last_ns > 0) first = std::min(first, device->first_ns);
  }
  return first;
}

bool has(const Json& line, std::initializer_list<const char*> integers,
         std::initializer_list<const char*> texts) {
  return std::ranges::all_of(integers,
                             [&line](const char* field) {
                               return line.contains(field) && line[field].is_number_integer();
                             }) &&
         std::ranges::all_of(texts, [&line](const char* field) {
           return line.contains(field) && line[field].is_string();
         });
}

/// Returns whether a line has all fields that docs/reference/operations-format.md requires.
bool is_whole(const Json& line) {
  if (!line.is_object()) return false;
  if (line.contains("op")) {
    return has(line, {"name", "device", "stream", "start_ns", "end_ns", "duration_ns"},
               {"op", "class", "evidence"}) &&
           std::in_range<std::uint16_t>(line["device"].get<std::int64_t>());
  }
  if (line.contains("collective")) {
    return has(line,
               {"collective", "name", "device", "stream", "number", "rank", "ranks", "bytes",
                "asked_ns"},
               {"communicator", "type"}) &&
           line.contains("bus_factor") && line["bus_factor"].is_number() &&
           std::in_range<std::uint16_t>(line["device"].get<std::int64_t>());
  }
  if (line.contains("mark")) return has(line, {"time_ns", "thread"}, {"mark", "text"});
  return line.contains("memory") || has(line, {"name"}, {"text"});
}

std::unexpected<Error> not_a_line(const RecordedProcess& process, std::int64_t number) {
  return fail(ErrorCode::kCorruptData, "{}:{}: not a line of operations of libgpemu.so",
              process.lines.string(), number);
}

/// Returns whether a line gives times to an earlier one.
bool is_later(const std::string& line) {
  return line.starts_with(R"({"moved":)") || line.starts_with(R"({"ended":)");
}

/// Calls `handle` with each complete line of a file and its number.
Result<void> for_each_line(
    const RecordedProcess& process,
    const std::function<Result<void>(const std::string& line, std::int64_t number)>& handle) {
  if (process.totals.lines == 0) return {};  // There may be no file.
  const auto cannot_read = [&process] {
    return fail(ErrorCode::kIo, "cannot read {}: {}", process.lines.string(), errno_message(errno));
  };
  std::ifstream file(process.lines);
  if (!file.is_open()) return cannot_read();
  std::string line;
  for (std::int64_t i = 0; i < process.totals.lines; ++i) {
    std::getline(file, line);
    if (file.bad()) return cannot_read();
    if (!file || line.starts_with('\0')) {
      return fail(ErrorCode::kCorruptData, "{}: {} lines, not {}", process.lines.string(), i,
                  process.totals.lines);
    }
    GPEMU_TRY(handle(line, i + 1));
  }
  return {};
}

}  // namespace

Result<TemporaryFolder> make_record_folder(const std::filesystem::path& temporary) {
  std::error_code error;
  if (!std::filesystem::is_directory(temporary, error)) {
    return fail(ErrorCode::kIo, "TMPDIR must name a folder for records, but '{}' is none",
                temporary.string());
  }
  return TemporaryFolder::create(temporary, "gpemu-records-");
}

Result<std::vector<RecordedProcess>> read_processes(const std::filesystem::path& folder) {
  std::vector<RecordedProcess> processes;
  GPEMU_ASSIGN(const std::vector<std::filesystem::path> paths, list_folder(folder));
  for (const std::filesystem::path& path : paths) {
    if (path.extension() != ".record") continue;
    GPEMU_ASSIGN(const std::string content, read_file(path));
    RecordedProcess process;
    if (content.size() == sizeof(process.totals)) {
      std::memcpy(&process.totals, content.data(), sizeof(process.totals));
    } else if (!content.empty()) {
      return fail(ErrorCode::kCorruptData, "{}: not a record of this version of libgpemu.so",
                  path.string());
    }
    if (process.totals.magic == 0) continue;
    if (process.totals.magic != process::ProcessRecord::kMagic) {
      return fail(ErrorCode::kCorruptData, "{}: not a record of this version of libgpemu.so",
                  path.string());
    }
    process.lines = path;
    process.lines.replace_extension(".lines");
    processes.push_back(std::move(process));
  }
  std::ranges::sort(processes, {}, [](const RecordedProcess& process) {
    return std::pair(first_ns(process), process.totals.process);
  });
  return processes;
}

Result<std::vector<LoadedLibrary>> read_loaded(const std::filesystem::path& folder) {
  std::vector<LoadedLibrary> loaded;
  GPEMU_ASSIGN(const std::vector<std::filesystem::path> paths, list_folder(folder));
  for (const std::filesystem::path& path : paths) {
    if (path.extension() != ".loaded") continue;
    GPEMU_ASSIGN(std::string content, read_file(path));
    std::istringstream lines(std::move(content));
    LoadedLibrary& one = loaded.emplace_back();
    one.process = std::strtoll(path.stem().c_str(), nullptr, 10);
    std::getline(lines, one.program);
    std::getline(lines, one.library);
    one.program = printable(one.program);
    one.library = printable(one.library);
  }
  std::ranges::sort(loaded, {}, &LoadedLibrary::process);
  return loaded;
}

Result<std::int64_t> count_phantoms(const std::filesystem::path& folder) {
  GPEMU_ASSIGN(const std::vector<std::filesystem::path> paths, list_folder(folder));
  return std::ranges::count_if(
      paths, [](const std::filesystem::path& path) { return path.extension() == ".phantom"; });
}

Result<ProcessLines> ProcessLines::read(const RecordedProcess& process) {
  ProcessLines lines(process);
  GPEMU_TRY(for_each_line(process, [&lines](const std::string& line, std::int64_t number) {
    return is_later(line) ? lines.add_later(line, number) : Result<void>();
  }));
  return lines;
}

Result<void> ProcessLines::add_later(const std::string& line, std::int64_t number) {
  ++later_lines_;
  const Json entry = Json::parse(line, nullptr, false);
  const bool is_end = entry.is_object() && has(entry, {"ended", "arrived_ns"}, {});
  if (!entry.is_object() || !(is_end || has(entry, {"moved"}, {})) ||
      !has(entry, {"start_ns", "end_ns"}, {})) {
    return not_a_line(*process_, number);
  }
  Times times{.start_ns = entry["start_ns"], .end_ns = entry["end_ns"]};
  if (is_end) {
    times.arrived_ns = entry["arrived_ns"];
    if (has(entry, {"waited_for"}, {})) times.waited_for = entry["waited_for"];
    collectives_[entry["ended"].get<std::int64_t>()] = times;
  } else {
    operations_[entry["moved"].get<std::int64_t>()] = times;
  }
  return {};
}

template <typename Entry>
bool ProcessLines::add_times(Entry& entry) const {
  const bool is_collective = entry.contains("collective");
  const char* const id = is_collective ? "collective" : "id";
  if (!entry.contains(id) || !entry[id].is_number_integer()) return false;
  const auto& known = is_collective ? collectives_ : operations_;
  const auto found = known.find(entry[id].template get<std::int64_t>());
  if (found == known.end()) return false;
  const Times& times = found->second;
  if (is_collective) entry["arrived_ns"] = times.arrived_ns;
  entry["start_ns"] = times.start_ns;
  entry["end_ns"] = times.end_ns;
  if (times.waited_for >= 0) entry["waited_for"] = times.waited_for;
  return true;
}

Result<void> ProcessLines::for_each(
    const std::function<Result<void>(const std::string& line)>& handle) const {
  const bool has_moved = !operations_.empty();
  return for_each_line(*process_, [&](const std::string& line, std::int64_t) -> Result<void> {
    if (is_later(line)) return {};
    const bool may_change =
        line.starts_with(R"({"collective":)") || (has_moved && line.starts_with(R"({"op":)"));
    if (!may_change) return handle(line);
    auto entry = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!entry.is_object() || !add_times(entry)) return handle(line);
    std::string text = report::one_line(entry);
    text.pop_back();  // The line feed.
    return handle(text);
  });
}

Result<void> ProcessLines::for_each_entry(
    const std::function<Result<void>(Json& entry)>& handle) const {
  std::unordered_map<std::int64_t, std::string> names;
  return for_each_line(*process_,
                       [&](const std::string& line, std::int64_t number) -> Result<void> {
                         if (is_later(line)) return {};
                         Json entry = Json::parse(line, nullptr, false);
                         if (!is_whole(entry)) return not_a_line(*process_, number);
                         if (entry.contains("op") || entry.contains("collective")) {
                           const auto name = names.find(entry["name"].get<std::int64_t>());
                           if (name == names.end()) return not_a_line(*process_, number);
                           entry["name"] = name->second;
                           static_cast<void>(add_times(entry));
                         } else if (entry.contains("name")) {
                           names[entry["name"].get<std::int64_t>()] = entry["text"];
                           return {};
                         } else if (!entry.contains("mark")) {
                           return {};  // Memory.
                         }
                         return handle(entry);
                       });
}

Result<void> for_each_entry(const RecordedProcess& process,
                            const std::function<Result<void>(Json& entry)>& handle) {
  GPEMU_ASSIGN(const ProcessLines lines, ProcessLines::read(process));
  return lines.for_each_entry(handle);
}

std::vector<const process::RecordedDevice*> devices_of(const RecordedProcess& process) {
  std::vector<const process::RecordedDevice*> devices;
  for (const process::RecordedDevice& device : process.totals.devices) {
    if (device.used != 0) devices.push_back(&device);
  }
  return devices;
}

}  // namespace gpemu::record
