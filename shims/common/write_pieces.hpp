// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

/// Writes `count` integers, value(0) first, piece by piece: the count is the caller's, so an array
/// of that size may not fit into the host's memory. `write(first, integers, bytes)` writes a piece
/// from the element `first` on; returns its first status that is not 0, else 0.
template <typename Value, typename Write>
int write_pieces(uint64_t count, Value value, Write write) {
  int piece[1024];
  for (uint64_t first = 0; first < count; first += std::size(piece)) {
    const uint64_t length = std::min<uint64_t>(count - first, std::size(piece));
    for (uint64_t i = 0; i < length; ++i) {
      piece[i] = value(first + i);
    }
    if (const int status = write(first, piece, length * sizeof(int)); status != 0) {
      return status;
    }
  }
  return 0;
}
