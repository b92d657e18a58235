// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/storage_device.hpp"

namespace gpemu::data {

/// Reads one sample after the other, each by itself, into a buffer that it reuses.
///
/// Thread safety: none.
class SampleReader {
 public:
  /// Reads what `storage`, if there is one, describes as slowly as it does. Both must outlive the
  /// reader.
  explicit SampleReader(const Dataset& dataset, StorageDevice* storage = nullptr)
      : dataset_(&dataset), storage_(storage) {}

  /// Reads a sample; after that, image() has it.
  ///
  /// Errors: kIo naming the file.
  [[nodiscard]] Result<void> read(std::size_t sample);

  /// Returns the image that was read last, valid until the next read.
  ///
  /// Errors: kCorruptData, without a name, if it is cut off or fails its checksum.
  [[nodiscard]] Result<std::span<const std::byte>> image() const;

  /// Returns how many bytes the last read got from the file, and what they are.
  [[nodiscard]] Bytes bytes_read() const { return filled_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {buffer_.get(), filled_}; }

 private:
  const Dataset* dataset_;
  StorageDevice* storage_;
  std::unique_ptr<std::byte[]> buffer_;
  Bytes capacity_ = 0;
  std::size_t sample_ = 0;
  Unit part_;
  Bytes filled_ = 0;
};

}  // namespace gpemu::data
