// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpemu::skip {

/// The operations for which a thread waits on a file descriptor.
enum class Direction { kRead, kWrite, kBoth };

/// Returns the direction of a wait for reading, for writing or for both; for neither, a file can
/// still report its end, as to a reader.
[[nodiscard]] constexpr Direction direction_of(bool reads, bool writes) {
  if (!writes) return Direction::kRead;
  return reads ? Direction::kBoth : Direction::kWrite;
}

/// A file descriptor on which a thread waits.
struct FileWait {
  int descriptor = -1;
  Direction direction = Direction::kRead;
  bool operator==(const FileWait&) const = default;
};

}  // namespace gpemu::skip
