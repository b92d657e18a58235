// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <unistd.h>

#include "gpemu/base/file.hpp"

#include "proc_text.hpp"

namespace gpemu::run {

/// Reads a small open file of /proc into `buffer`; returns its text, "" if there is none.
template <std::size_t Size>
[[nodiscard]] std::string_view read_open(const FileDescriptor& file,
                                         std::array<char, Size>& buffer) {
  const ssize_t count = ::pread(file.get(), buffer.data(), Size, 0);
  if (count <= 0) return {};
  return {buffer.data(), static_cast<std::size_t>(count)};
}

/// Returns the target of a symbolic link; "" if it cannot be read.
[[nodiscard]] inline std::string link_text(const std::string& path) {
  std::array<char, 512> buffer{};
  const ssize_t count = ::readlink(path.c_str(), buffer.data(), buffer.size());
  return count <= 0 ? std::string() : std::string(buffer.data(), static_cast<std::size_t>(count));
}

[[nodiscard]] inline FileDescriptor open_read(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

/// Returns the whole text of a file of /proc; "" if it cannot be read.
[[nodiscard]] inline std::string text_of(const std::string& path) {
  const FileDescriptor file = open_read(path);
  std::string text;
  std::array<char, 16384> buffer{};
  if (!file.valid()) return text;
  for (ssize_t count = 0; (count = ::read(file.get(), buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

/// Calls `look` with each entry of a folder of /proc that is a number. Returns whether the folder
/// exists.
template <typename Look>
bool for_each_number(const std::string& folder, Look look) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open) return false;
  while (const dirent* entry = ::readdir(open.get())) {  // NOLINT(concurrency-mt-unsafe): its own.
    if (const auto number = leading_number<pid_t>(entry->d_name)) look(*number);
  }
  return true;
}

}  // namespace gpemu::run
