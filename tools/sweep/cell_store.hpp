// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"
#include "gpemu/profile/sweep_cells.hpp"

namespace gpemu::tools {

/// A run of a cell: how it was made, and what the command printed.
struct CellRecord {
  std::vector<std::pair<std::string, std::string>> factors;  ///< names and values.
  std::vector<std::string> command;                          ///< from "gpemu" on.
  std::string gpemu_version;
  std::string host;   ///< the machine's name.
  std::string start;  ///< in UTC: "2026-11-22T08:30:00Z".
  double elapsed_s = 0;
  int exit_status = 0;
  std::vector<std::string> last_lines;  ///< of what the command said, if it failed.
  nlohmann::ordered_json result;        ///< null if it failed.

  [[nodiscard]] bool failed() const { return result.is_null(); }
};

/// The right to run a cell, until it is destroyed and the last process that has the descriptor has
/// ended.
class CellLock {
 public:
  explicit CellLock(FileDescriptor file) : file_(std::move(file)) {}
  [[nodiscard]] int descriptor() const { return file_.get(); }

 private:
  FileDescriptor file_;
};

/// The folder of a sweep: `cells`, with a file for each cell that has been run, named by its key,
/// and `lock`. Several processes use it at the same time, also on several machines. Thread safety:
/// any thread.
class CellStore {
 public:
  /// Makes the folder if there is none. Errors: kIo.
  [[nodiscard]] static Result<CellStore> open(const std::filesystem::path& folder);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  /// Returns whether the cell has been run, failed or not.
  [[nodiscard]] bool has(const profile::SweepCell& cell) const;

  /// Returns the keys of all cells that have been run.
  [[nodiscard]] std::set<std::uint64_t> keys() const;

  /// Locks a cell; returns nothing if another worker runs it.
  ///
  /// Errors: kIo; kUnsupported if the file system has no locks.
  [[nodiscard]] Result<std::optional<CellLock>> lock(const profile::SweepCell& cell) const;

  /// Errors: as write_file_atomically().
  [[nodiscard]] Result<void> write(const profile::SweepCell& cell, const CellRecord& record) const;

  /// Requires: has(cell). Errors: kIo; kCorruptData with the file and what to do.
  [[nodiscard]] Result<CellRecord> read(const profile::SweepCell& cell) const;

  /// Forgets that a cell was run. Errors: kIo.
  [[nodiscard]] Result<void> forget(const profile::SweepCell& cell) const;

 private:
  explicit CellStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  [[nodiscard]] std::filesystem::path file_of(const profile::SweepCell& cell) const;

  std::filesystem::path folder_;
};

}  // namespace gpemu::tools
