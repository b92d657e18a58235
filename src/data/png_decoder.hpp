// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/data/region.hpp"

#include "jpeg_decoder.hpp"

namespace gpemu::data {

/// Returns whether bytes begin as a PNG file does.
[[nodiscard]] bool is_png(std::span<const std::byte> bytes);

/// Decodes one PNG image after the other, keeping the buffer between them. All kinds of images
/// become 8-bit RGB as Pillow's convert("RGB") makes them: palettes and grey values are expanded,
/// transparency is ignored. A PNG can only be decoded from its start, so a region costs as much as
/// the whole image.
///
/// Thread safety: none.
class PngDecoder {
 public:
  /// Reads an image's header. `png` must stay alive until its pixels are decoded.
  ///
  /// Errors: kCorruptData.
  [[nodiscard]] Result<ImageSize> open(std::span<const std::byte> png);

  /// Decodes the image that was opened; its pixels are valid until the next call.
  ///
  /// Errors: kCorruptData.
  [[nodiscard]] Result<PixelView> decode(const Region& region);

 private:
  std::span<const std::byte> png_;
  ImageSize size_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t*> rows_;
};

}  // namespace gpemu::data
