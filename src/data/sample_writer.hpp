// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/data/convert_options.hpp"

namespace gpemu::data {

/// Stores samples in one format. Thread safety: none.
class SampleWriter {
 public:
  SampleWriter() = default;
  SampleWriter(const SampleWriter&) = delete;
  SampleWriter& operator=(const SampleWriter&) = delete;
  /// Without commit(), nothing stays.
  virtual ~SampleWriter() = default;

  /// Errors, here and below: those of convert_dataset.
  [[nodiscard]] virtual Result<void> add(std::int32_t label, std::span<const std::byte> image) = 0;
  /// Writes what is left, and moves all to its place.
  [[nodiscard]] virtual Result<void> commit() = 0;
};

/// What a writer has to know about the samples that come.
struct SamplesToCome {
  std::vector<std::string> classes;
  Bytes largest = 0;
};

/// Makes the writer of a format.
[[nodiscard]] Result<std::unique_ptr<SampleWriter>> create_writer(
    const std::filesystem::path& target, const SamplesToCome& samples,
    const ConvertOptions& options);

}  // namespace gpemu::data
