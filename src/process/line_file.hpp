// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

#include "gpemu/base/file.hpp"
#include "gpemu/base/mutex.hpp"

namespace gpemu::process {

/// A text file that grows by lines and contains every added line, however the process ends: it is
/// mapped, and a line counts once its line feed is written. The rest of the file is zeros. Only a
/// small part is mapped at a time.
///
/// Thread safety: any thread.
class LineFile {
 public:
  explicit LineFile(const std::filesystem::path& path);
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  ~LineFile();

  /// Adds a line, given without its line feed; returns whether there was space for it. Once there
  /// is none, nothing more is added.
  bool add(std::string_view line) GPEMU_EXCLUDES(mutex_);

 private:
  [[nodiscard]] bool map_next() GPEMU_REQUIRES(mutex_);

  Mutex mutex_;
  FileDescriptor file_ GPEMU_GUARDED_BY(mutex_);
  char* window_ GPEMU_GUARDED_BY(mutex_) = nullptr;
  std::size_t offset_ GPEMU_GUARDED_BY(mutex_) = 0;  ///< of the window in the file.
  std::size_t used_ GPEMU_GUARDED_BY(mutex_) = 0;    ///< of the window.
};

}  // namespace gpemu::process
