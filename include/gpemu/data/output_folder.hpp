// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <utility>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"

namespace gpemu::data {

/// A folder under construction beside its place, removed with all that is in it unless it is
/// committed: nobody ever sees a part of it in its place.
///
/// Until then it is named PLACE.partial-PID, and its process has it locked. If the process is
/// killed, the folder stays; the next one for the same place removes it.
class OutputFolder {
 public:
  /// Errors: kInvalidArgument if there is something at its place that is not an empty folder; kIo.
  [[nodiscard]] static Result<OutputFolder> create(const std::filesystem::path& target);
  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder();

  /// Returns where its files are until then.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Moves it to its place. Errors: kIo.
  [[nodiscard]] Result<void> commit();

 private:
  OutputFolder(std::filesystem::path path, std::filesystem::path target, FileDescriptor lock)
      : path_(std::move(path)), target_(std::move(target)), lock_(std::move(lock)) {}
  std::filesystem::path path_;
  std::filesystem::path target_;
  FileDescriptor lock_;
};

}  // namespace gpemu::data
