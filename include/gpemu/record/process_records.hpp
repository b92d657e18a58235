// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/base/temporary_folder.hpp"
#include "gpemu/process/process_record.hpp"

namespace gpemu::record {

/// Makes the folder for the records of a run's processes in the folder for temporary files, and
/// removes those of killed runs. Errors: kIo with the path and the reason.
[[nodiscard]] Result<TemporaryFolder> make_record_folder(const std::filesystem::path& temporary);

/// The records of one process of a run.
struct RecordedProcess {
  process::ProcessRecord totals;
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

/// Returns how many processes of a run ended at once because their ranks were not to run.
///
/// Errors: those of list_folder.
[[nodiscard]] Result<std::int64_t> count_phantoms(const std::filesystem::path& folder);

/// The lines of a process, in the format of docs/reference/operations-format.md. The process wrote
/// times that it learned later as lines of their own.
class ProcessLines {
 public:
  /// Reads the later times. `process` must outlive the result.
  ///
  /// Errors: as read_processes.
  [[nodiscard]] static Result<ProcessLines> read(const RecordedProcess& process);

  /// Returns how many lines for_each() gives.
  [[nodiscard]] std::int64_t count() const { return process_->totals.lines - later_lines_; }

  /// Calls `handle` with each complete line, and stops at its first error. Only a small part of the
  /// file is in memory at a time.
  ///
  /// Errors: as read_processes, and those of `handle`.
  [[nodiscard]] Result<void> for_each(
      const std::function<Result<void>(const std::string& line)>& handle) const;

  /// As for_each_entry(), below.
  [[nodiscard]] Result<void> for_each_entry(
      const std::function<Result<void>(nlohmann::json& entry)>& handle) const;

 private:
  struct Times {
    std::int64_t arrived_ns = 0;  ///< of a collective.
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    std::int64_t waited_for = -1;  ///< of a collective, if it waited.
  };

  explicit ProcessLines(const RecordedProcess& process) : process_(&process) {}
  [[nodiscard]] Result<void> add_later(const std::string& line, std::int64_t number);
  /// Returns whether an entry has later times, which it then gets.
  template <typename Entry>
  bool add_times(Entry& entry) const;

  const RecordedProcess* process_;
  std::int64_t later_lines_ = 0;
  std::unordered_map<std::int64_t, Times> operations_, collectives_;
};

/// Calls `handle` with each operation, collective and mark, parsed and with the text of its name as
/// "name". All fields that docs/reference/operations-format.md does not call optional are present,
/// with their types.
///
/// Errors: those of ProcessLines; kCorruptData with file and line if a line is not in the format.
[[nodiscard]] Result<void> for_each_entry(
    const RecordedProcess& process,
    const std::function<Result<void>(nlohmann::json& entry)>& handle);

/// Returns the devices that a process used.
[[nodiscard]] std::vector<const process::RecordedDevice*> devices_of(
    const RecordedProcess& process);

}  // namespace gpemu::record
