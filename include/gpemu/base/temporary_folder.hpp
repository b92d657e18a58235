// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"

namespace gpemu {

/// A folder that is removed at the end. If the process is killed, the next one of the same user
/// that makes a folder with the same prefix removes it.
class TemporaryFolder {
 public:
  /// Makes it in a folder; its name is the prefix and six random characters. Nobody else may have
  /// names that begin so. Errors: kIo with the path and the reason.
  [[nodiscard]] static Result<TemporaryFolder> create(const std::filesystem::path& parent,
                                                      std::string_view prefix);
  TemporaryFolder(TemporaryFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  TemporaryFolder(std::filesystem::path path, FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  std::filesystem::path path_;
  FileDescriptor lock_;  ///< of the folder, held as long as this lives.
};

}  // namespace gpemu
