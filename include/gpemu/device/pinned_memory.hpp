// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::device {

/// Page-locks memory, which must be mapped. Where the user's limit on locked memory is too low, the
/// pages are made resident but may be swapped out later. Returns whether they are locked.
///
/// Errors: kResourceLimit when the memory is not mapped or the host is out of memory.
[[nodiscard]] Result<bool> lock_pages(std::span<std::byte> memory);

/// Returns what to tell a user about so many bytes that could not be locked: the limit, what it
/// changes, and how to raise it.
[[nodiscard]] std::string not_locked_text(Bytes bytes);

/// Host memory that is page-locked, as cudaHostAlloc's is: it costs the host what it would cost
/// there. Where the user's limit is too low, it is not locked and says so. Zero-filled, aligned to
/// pages.
///
/// Thread safety: none.
class PinnedMemory {
 public:
  /// Errors: kInvalidArgument for zero bytes; kResourceLimit when the host is out of memory.
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
