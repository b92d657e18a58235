// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "jpeg_decoder.hpp"

namespace gpemu::data {

/// The weights with which each position of a resized line sums positions of the original: a
/// triangle as wide as the reduction, which is bilinear interpolation with antialiasing.
class ResizeFilter {
 public:
  struct Taps {
    int first = 0;  ///< position in the original that the first weight belongs to.
    std::span<const float> weights;
  };

  /// Computes the weights anew; allocates only when more are needed than ever before. Requires: the
  /// sizes are positive.
  void assign(int original_size, int resized_size);

  [[nodiscard]] Taps at(int position) const {
    const Entry& entry = entries_[static_cast<std::size_t>(position)];
    return {entry.first, std::span(weights_).subspan(entry.offset, entry.count)};
  }

 private:
  struct Entry {
    int first;
    std::size_t offset;
    std::size_t count;
  };
  std::vector<Entry> entries_;
  std::vector<float> weights_;
};

/// Resizes pixels to a square, flips them, and writes them as normalised floats, one plane per
/// colour. Keeps its buffers between images.
///
/// Thread safety: none.
class Resizer {
 public:
  explicit Resizer(int size) : size_(size) {}

  /// Shape of `output`: [3, size, size].
  void resize(const PixelView& pixels, bool flip, std::span<float> output);

 private:
  using Pixel [[gnu::vector_size(16)]] = float;

  void blend_rows(const PixelView& pixels, const ResizeFilter::Taps& taps);

  int size_;
  ResizeFilter horizontal_;
  ResizeFilter vertical_;
  std::vector<float> line_;  ///< one row, resized vertically only.
};

}  // namespace gpemu::data
