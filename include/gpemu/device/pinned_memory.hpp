// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::device {

/// Host memory that is really page-locked, as cudaHostAlloc's is: it costs the host what it would
/// cost there. Zero-filled, aligned to pages.
///
/// Thread safety: none.
class PinnedMemory {
 public:
  /// Errors: kInvalidArgument for zero bytes; kResourceLimit when the limit on locked memory is too
  /// low (the message has the limit, what is needed, and the command that raises it) or the host is
  /// out of memory.
  [[nodiscard]] static Result<PinnedMemory> allocate(Bytes bytes);

  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory();

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit PinnedMemory(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

}  // namespace gpemu::device
