// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::data {

/// Reads one file after the other into a buffer that it reuses.
///
/// Thread safety: none.
class SampleReader {
 public:
  /// Returns the file's content, valid until the next call.
  ///
  /// Errors: kIo naming the file.
  [[nodiscard]] Result<std::span<const std::byte>> read(const std::filesystem::path& path);

 private:
  std::unique_ptr<std::byte[]> buffer_;
  Bytes capacity_ = 0;
};

}  // namespace gpemu::data
