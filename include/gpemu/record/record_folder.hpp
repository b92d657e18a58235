// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <utility>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"

namespace gpemu::record {

/// A folder for the records of a run's processes, removed at the end. If the run is killed, the
/// next run of the same user removes the folder.
class RecordFolder {
 public:
  /// Makes it in `parent`, the folder for temporary files. Errors: kIo with the path and the
  /// reason.
  [[nodiscard]] static Result<RecordFolder> create(const std::filesystem::path& parent);
  RecordFolder(RecordFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  RecordFolder& operator=(RecordFolder&&) = delete;
  RecordFolder(const RecordFolder&) = delete;
  RecordFolder& operator=(const RecordFolder&) = delete;
  ~RecordFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  RecordFolder(std::filesystem::path path, FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  std::filesystem::path path_;
  FileDescriptor lock_;  ///< held as long as the run lives.
};

}  // namespace gpemu::record
