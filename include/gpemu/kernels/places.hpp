// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>

#include "gpemu/base/units.hpp"

namespace gpemu::kernels {

/// The most dimensions of PyTorch's element-wise kernels. Source: MAX_DIMS in OffsetCalculator.cuh.
inline constexpr int kMostDimensions = 25;

/// Positions of elements in memory: those of a linear index in dimensions, the first fastest.
struct Places {
  int dimensions = 1;
  std::array<Bytes, kMostDimensions> sizes{};
  std::array<Bytes, kMostDimensions> strides{};  ///< in bytes; negative ones modulo 2^64.

  [[nodiscard]] Bytes count() const;
  /// Returns the bytes from the first element to the furthest one after it.
  [[nodiscard]] Bytes extent() const;
  /// The same to the furthest one before it: 0 without negative strides.
  [[nodiscard]] Bytes before() const;
  [[nodiscard]] Bytes offset(Bytes index) const;
  void add(Bytes size, Bytes stride);
  /// Returns the same places in the order of memory: from the lowest on, each once.
  [[nodiscard]] Places in_order() const;
  /// Returns the distance of the closest elements, which is at least their size; for one element,
  /// the largest number.
  [[nodiscard]] Bytes closest() const;
};

/// Returns the places of adjacent elements.
[[nodiscard]] Places in_a_row(Bytes count, Bytes element_bytes);

/// A walk through places, one piece of adjacent bytes after the other. Requires: the places outlive
/// it.
class Walk {
 public:
  Walk(const Places& places, Bytes element_bytes);

  [[nodiscard]] Bytes pieces() const { return places_.count() / std::max<Bytes>(elements_, 1); }
  /// Returns the bytes from here to the end of the piece.
  [[nodiscard]] Bytes left() const { return piece_ - within_; }
  [[nodiscard]] Bytes offset() const { return start_ + within_; }
  /// Goes on. Requires: no more than are left.
  void advance(Bytes bytes);

 private:
  const Places& places_;
  int adjacent_ = 0;  ///< so many dimensions are one piece.
  Bytes piece_ = 0, elements_ = 1;
  Bytes number_ = 0, start_ = 0, within_ = 0;
};

}  // namespace gpemu::kernels
