// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::device {

/// Page-locks memory, which must be mapped. If the user's limit on locked memory is too low, makes
/// the pages resident, but they may be swapped out later. Returns whether they are locked.
///
/// Errors: kResourceLimit if the memory is not mapped or the host is out of memory.
[[nodiscard]] Result<bool> lock_pages(std::span<std::byte> memory);

/// Returns a message for the user that `bytes` could not be locked: the limit, its effect, and how
/// to raise it.
[[nodiscard]] std::string not_locked_text(Bytes bytes);

/// Page-locked host memory, like that of cudaHostAlloc, with the same cost to the host. If the
/// user's limit is too low, it is not locked, and locked() is false. Zero-filled, aligned to pages.
///
/// Thread safety: none.
class PinnedMemory {
 public:
  /// Errors: kInvalidArgument for zero bytes; kResourceLimit if the host is out of memory.
  [[nodiscard]] static Result<PinnedMemory> allocate(Bytes bytes);

  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory();

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  [[nodiscard]] bool locked() const { return locked_; }

 private:
  explicit PinnedMemory(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
  bool locked_ = true;
};

}  // namespace gpemu::device
