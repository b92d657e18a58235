// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"

namespace gpemu::data {

/// A new file of an OutputFolder, which is written from its start to its end.
class OutputFile {
 public:
  /// Errors, here and below: kIo naming the file; kResourceLimit if the disk is full.
  [[nodiscard]] static Result<OutputFile> create(std::filesystem::path path);

  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> append(std::string_view text) {
    return append(std::as_bytes(std::span(text)));
  }
  /// Writes what is left. Nothing may be appended afterwards.
  [[nodiscard]] Result<void> close();

  [[nodiscard]] Bytes size() const { return size_; }

 private:
  OutputFile(std::filesystem::path path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}
  [[nodiscard]] Result<void> write(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::string buffer_;
  Bytes size_ = 0;
};

/// A folder under construction beside its place, removed with all that is in it unless it is
/// committed: nobody ever sees a part of it in its place.
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
  OutputFolder(std::filesystem::path path, std::filesystem::path target)
      : path_(std::move(path)), target_(std::move(target)) {}
  std::filesystem::path path_;
  std::filesystem::path target_;
};

}  // namespace gpemu::data
