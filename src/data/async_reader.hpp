// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/storage_device.hpp"

#include "part_buffers.hpp"

namespace gpemu::data {

/// A part of a file that has been read.
struct PartBytes {
  Unit part;
  std::shared_ptr<const std::byte[]> memory;
  Bytes filled = 0;  ///< less than the part's size if somebody shortened the file.

  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory.get(), filled}; }
};

/// Reads many parts of files at the same time by io_uring, in the order of their places on the disk
/// as far as the file system shows them (FIEMAP).
///
/// Thread safety: none.
class AsyncReader {
 public:
  /// Errors: kUnsupported if the kernel offers no io_uring, with its reason.
  [[nodiscard]] static Result<AsyncReader> create();
  AsyncReader(AsyncReader&&) noexcept;
  AsyncReader& operator=(AsyncReader&&) noexcept;
  ~AsyncReader();

  /// Takes a part that has been read, or why it could not be. Returns false to stop reading.
  using Take = std::function<bool(std::size_t index, Result<PartBytes> bytes)>;

  /// Reads parts of the data set's files into memory of `buffers`, as slowly as `storage` describes
  /// it if there is one.
  void read(const Dataset& dataset, std::span<const Unit> parts, PartBuffers& buffers,
            StorageDevice* storage, const Take& take);

 private:
  struct State;
  explicit AsyncReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpemu::data
