// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "gpemu/base/file.hpp"

namespace gpemu::mps {

/// A log as the programs of MPS write it: "[2026-05-31 23:46:49.893 Control 11107] text".
class LogFile {
 public:
  /// `who`: "Control" or "Server". `shows`: also on standard output. Makes the folder if necessary;
  /// if the file cannot be written, says so once on standard error.
  LogFile(const std::filesystem::path& folder, const char* name, std::string who, bool shows);

  template <typename... Args>
  void write(fmt::format_string<Args...> format, Args&&... args) const {
    write_line(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void write_line(std::string_view text) const;

  FileDescriptor file_;
  std::string who_;
  bool shows_;
};

}  // namespace gpemu::mps
