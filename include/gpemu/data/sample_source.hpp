// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/storage_device.hpp"

namespace gpemu::data {

/// The stored bytes of a sample, which Dataset::extent() describes.
struct SampleBytes {
  std::shared_ptr<const std::byte[]> memory;
  Bytes size = 0;       ///< less than the extent if somebody shortened the file.
  bool cached = false;  ///< they were in memory, here or elsewhere.

  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory.get(), size}; }
};

/// What a loader reads samples from, in place of the files: e.g. a cache. Thread safety: any
/// thread.
class SampleSource {
 public:
  SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;
  virtual ~SampleSource() = default;

  /// Errors: kIo naming what cannot be read.
  [[nodiscard]] virtual Result<SampleBytes> read(std::uint32_t sample) = 0;
};

/// Reads the stored bytes of a sample from its file, as slowly as `storage` describes it if there
/// is one.
///
/// Errors: kIo naming the file.
[[nodiscard]] Result<SampleBytes> read_sample(const Dataset& dataset, std::uint32_t sample,
                                              StorageDevice* storage);

}  // namespace gpemu::data
