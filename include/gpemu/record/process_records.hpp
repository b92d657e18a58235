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

/// The records of one process of a run.
struct RecordedProcess {
  cuda::ProcessRecord totals;
  std::filesystem::path lines;  ///< of its operations; may not exist.
};

/// Reads the records of a run's processes from a folder, in the order of their first operations. A
/// process that was killed before it had counted anything is left out.
///
/// Errors: kCorruptData, naming the file, if it is not in the format of libgpemu.so; kIo if it
/// cannot be read.
[[nodiscard]] Result<std::vector<RecordedProcess>> read_processes(
    const std::filesystem::path& folder);

/// A process that loaded one of NVIDIA's libraries.
struct LoadedLibrary {
  std::int64_t process = 0;
  std::string program;  ///< its path.
  std::string library;  ///< the first that it loaded.
};

/// Reads which processes of a run loaded NVIDIA's libraries, by process number.
///
/// Errors: those of list_folder and read_file.
[[nodiscard]] Result<std::vector<LoadedLibrary>> read_loaded(const std::filesystem::path& folder);

/// Calls `handle` with each complete line of a process, and stops at its first error. Only a small
/// part of the file is in memory at a time.
///
/// Errors: as read_processes, and those of `handle`.
[[nodiscard]] Result<void> for_each_line(
    const RecordedProcess& process,
    const std::function<Result<void>(const std::string& line)>& handle);

/// Like for_each_line, with each operation and mark parsed and the text of its name as "name". All
/// fields that docs/reference/operations-format.md does not call optional are present, with their
/// types.
///
/// Errors: kCorruptData with file and line if that is not so.
[[nodiscard]] Result<void> for_each_entry(
    const RecordedProcess& process,
    const std::function<Result<void>(nlohmann::json& entry)>& handle);

/// Returns the devices that a process used.
[[nodiscard]] std::vector<const cuda::RecordedDevice*> devices_of(const RecordedProcess& process);

}  // namespace gpemu::record
