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
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/base/text.hpp"

namespace gpemu::record {
namespace {

using Json = nlohmann::json;

std::int64_t first_ns(const RecordedProcess& process) {
  std::int64_t first = INT64_MAX;
  for (const cuda::RecordedDevice* device : devices_of(process)) {
    if (device->operations > 0) first = std::min(first, device->first_ns);
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
  if (line.contains("mark")) return has(line, {"time_ns", "thread"}, {"mark", "text"});
  return line.contains("memory") || has(line, {"name"}, {"text"});
}

}  // namespace

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
    if (process.totals.magic != cuda::ProcessRecord::kMagic) {
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

Result<void> for_each_line(const RecordedProcess& process,
                           const std::function<Result<void>(const std::string& line)>& handle) {
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
    GPEMU_TRY(handle(line));
  }
  return {};
}

Result<void> for_each_entry(const RecordedProcess& process,
                            const std::function<Result<void>(Json& entry)>& handle) {
  std::unordered_map<std::int64_t, std::string> names;
  std::int64_t number = 0;
  return for_each_line(process, [&](const std::string& line) -> Result<void> {
    ++number;
    Json entry = Json::parse(line, nullptr, false);
    if (!is_whole(entry) ||
        (entry.contains("op") && !names.contains(entry["name"].get<std::int64_t>()))) {
      return fail(ErrorCode::kCorruptData, "{}:{}: not a line of operations of libgpemu.so",
                  process.lines.string(), number);
    }
    if (entry.contains("op")) {
      entry["name"] = names[entry["name"].get<std::int64_t>()];
    } else if (entry.contains("name")) {
      names[entry["name"].get<std::int64_t>()] = entry["text"];
      return {};
    } else if (!entry.contains("mark")) {
      return {};  // Memory.
    }
    return handle(entry);
  });
}

std::vector<const cuda::RecordedDevice*> devices_of(const RecordedProcess& process) {
  std::vector<const cuda::RecordedDevice*> devices;
  for (const cuda::RecordedDevice& device : process.totals.devices) {
    if (device.used != 0) devices.push_back(&device);
  }
  return devices;
}

}  // namespace gpemu::record
