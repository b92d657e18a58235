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

}  // namespace gpemu::data
