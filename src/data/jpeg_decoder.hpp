// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include <jpeglib.h>

#include "gpemu/base/error.hpp"
#include "gpemu/data/region.hpp"

namespace gpemu::data {

/// The most pixels of an image. Source: Pillow refuses images of more than twice its
/// MAX_IMAGE_PIXELS, 1 GiB / 4 / 3, because they may be decompression bombs.
inline constexpr std::int64_t kMaxPixels = 2 * (std::int64_t{1024} * 1024 * 1024 / 4 / 3);

/// Decoded pixels: four bytes each, red, green, blue and one to ignore, in rows of `stride` bytes.
struct PixelView {
  const std::uint8_t* first = nullptr;
  std::size_t stride = 0;
  int width = 0;
  int height = 0;

  [[nodiscard]] const std::uint8_t* row(int y) const {
    return first + static_cast<std::size_t>(y) * stride;
  }
};

/// Decodes one JPEG image after the other, as a whole or a region of it, keeping libjpeg's state
/// and the pixel buffer between them. Greyscale and CMYK images become RGB.
///
/// Thread safety: none.
class JpegDecoder {
 public:
  JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
  ~JpegDecoder();

  /// Reads an image's header. `jpeg` must stay alive until its pixels are decoded.
  ///
  /// Errors: kCorruptData.
  [[nodiscard]] Result<ImageSize> open(std::span<const std::byte> jpeg);

  /// Decodes a region of the image that was opened, once. Its pixels equal those of the whole image
  /// and are valid until the next call. Requires: the region lies within the image.
  ///
  /// Errors: kCorruptData, also for an image that is cut off below the region.
  [[nodiscard]] Result<PixelView> decode(const Region& region);

  /// Decodes the whole image that was opened in the plainest way and drops the pixels.
  ///
  /// Errors: kCorruptData.
  [[nodiscard]] Result<void> decode_and_drop();

 private:
  /// What libjpeg's callbacks find behind `decompress_.err`.
  struct ErrorState {
    jpeg_error_mgr manager;
    std::jmp_buf escape;
    std::array<char, JMSG_LENGTH_MAX> message;
  };
  static void on_error(j_common_ptr common);
  static void on_message(j_common_ptr common, int level);

  template <typename Body>
  bool guarded(Body body);
  void reserve_rows(std::size_t stride, std::size_t rows);
  void read_rows(std::size_t stride, JDIMENSION end);
  [[nodiscard]] bool cut_off();
  [[nodiscard]] std::unexpected<Error> failure() const;

  jpeg_decompress_struct decompress_{};
  ErrorState errors_{};
  std::vector<std::uint8_t> pixels_;
};

}  // namespace gpemu::data
