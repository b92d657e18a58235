// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpemu/data/image.hpp"

namespace gpemu::data {

/// How a test encodes an image.
struct TestJpeg {
  int components = 3;  ///< 1 greyscale, 3 RGB, 4 CMYK.
  int horizontal_subsampling = 2;
  int vertical_subsampling = 2;
  int quality = 90;
  bool progressive = false;
  int restart_interval = 0;  ///< in rows of blocks; 0 for none.
};

/// Returns pixels with smooth areas, edges and noise. Shape: [height, width, components].
[[nodiscard]] std::vector<std::uint8_t> test_pixels(const ImageSize& size, int components,
                                                    std::uint64_t seed);

/// Encodes pixels with libjpeg's plainest calls.
[[nodiscard]] std::vector<std::byte> encode_test_jpeg(std::span<const std::uint8_t> pixels,
                                                      const ImageSize& size, const TestJpeg& how);

/// Encodes test_pixels().
[[nodiscard]] std::vector<std::byte> make_test_jpeg(const ImageSize& size, const TestJpeg& how = {},
                                                    std::uint64_t seed = 1);

/// Decodes a whole image to RGB with libjpeg's plainest calls: what regions are compared with.
/// Shape: [height, width, 3]. Not for CMYK.
[[nodiscard]] std::vector<std::uint8_t> decode_test_jpeg(std::span<const std::byte> jpeg);

}  // namespace gpemu::data
