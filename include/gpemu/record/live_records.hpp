// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"
#include "gpemu/record/program_work.hpp"

namespace gpemu::record {

/// Reads the lines of one process while it writes them.
class LiveProcess {
 public:
  /// Errors: kIo if the file cannot be opened.
  [[nodiscard]] static Result<LiveProcess> open(const std::filesystem::path& path);

  /// Reads the lines that are complete by now, at most `most_bytes`; returns whether there were
  /// any.
  ///
  /// Errors: kIo if the file cannot be read; kCorruptData for a line that is not in the format.
  [[nodiscard]] Result<bool> read(std::size_t most_bytes);

  [[nodiscard]] const ProgramWork& work() const { return reader_.work(); }

 private:
  LiveProcess(const std::filesystem::path& path, FileDescriptor file);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::size_t offset_ = 0;
  WorkReader reader_;
};

/// Reads the records of a run's processes while these write them.
class LiveRun {
 public:
  explicit LiveRun(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Reads at most `most_bytes` of each process; returns whether there was anything new. A process
  /// that has not made its file yet is not known yet.
  ///
  /// Errors: those of list_folder and of LiveProcess.
  [[nodiscard]] Result<bool> read(std::size_t most_bytes);

  [[nodiscard]] int processes() const { return static_cast<int>(processes_.size()); }

  /// Returns the process with the most work, with its number; null if there is none.
  [[nodiscard]] const std::pair<const std::string, LiveProcess>* main() const;

 private:
  std::filesystem::path folder_;
  std::map<std::string, LiveProcess> processes_;
};

}  // namespace gpemu::record
