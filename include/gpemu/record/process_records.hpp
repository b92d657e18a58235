// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/cuda/process_record.hpp"

namespace gpemu::record {

/// What one process of a run recorded.
struct RecordedProcess {
  cuda::ProcessRecord totals;
  std::filesystem::path lines;  ///< of its operations; may not exist.
};

/// Reads what the processes of a run recorded in a folder, in the order of their first operations.
/// A process that was killed before it had counted anything is left out.
///
/// Errors: kCorruptData for a file that is not what libgpemu.so writes, naming it.
[[nodiscard]] Result<std::vector<RecordedProcess>> read_processes(
    const std::filesystem::path& folder);

/// A process that asked for a library of NVIDIA's.
struct LoadedLibrary {
  std::int64_t process = 0;
  std::string program;  ///< its path.
  std::string library;  ///< the first that it asked for.
};

/// Reads which processes of a run asked for libraries of NVIDIA's, by number.
[[nodiscard]] std::vector<LoadedLibrary> read_loaded(const std::filesystem::path& folder);

/// Calls `handle` with each line of a process, up to the last whole one, and stops at its first
/// error. Little of the file is in memory at a time.
///
/// Errors: as read_processes, and those of `handle`.
[[nodiscard]] Result<void> for_each_line(
    const RecordedProcess& process,
    const std::function<Result<void>(const std::string& line)>& handle);

/// As for_each_line, with each operation and mark parsed and the text of its name as "name". Fields
/// that docs/reference/operations-format.md does not call absent are there, with their types.
///
/// Errors: kCorruptData with file and line for one that is not so.
[[nodiscard]] Result<void> for_each_entry(
    const RecordedProcess& process,
    const std::function<Result<void>(nlohmann::json& entry)>& handle);

/// Returns the devices that a process used.
[[nodiscard]] std::vector<const cuda::RecordedDevice*> devices_of(const RecordedProcess& process);

}  // namespace gpemu::record
