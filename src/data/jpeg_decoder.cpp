// SPDX-License-Identifier: Apache-2.0
#include "jpeg_decoder.hpp"

#include <algorithm>
#include <jerror.h>

namespace gpemu::data {
namespace {

constexpr std::size_t kBytesPerPixel = 4;

// Upsampling treats the first and last column that are decoded specially. With two more on either
// side the columns of the region are those of the whole image.
constexpr int kMarginColumns = 2;

/// Returns a * b / 255, rounded.
unsigned multiply_255(unsigned a, unsigned b) {
  const unsigned product = a * b + 128;
  return (product + (product >> 8)) >> 8;
}

// JPEG files with four components hold their values inverted, as Adobe's programs began to do.
void cmyk_to_rgb(std::span<std::uint8_t> pixels) {
  for (std::size_t i = 0; i + 3 < pixels.size(); i += kBytesPerPixel) {
    const unsigned key = pixels[i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      pixels[i + c] = static_cast<std::uint8_t>(multiply_255(pixels[i + c], key));
    }
  }
}

}  // namespace

void JpegDecoder::on_error(j_common_ptr common) {
  auto* errors = reinterpret_cast<ErrorState*>(common->err);
  common->err->format_message(common, errors->message.data());
  std::longjmp(errors->escape, 1);
}

void JpegDecoder::on_message(j_common_ptr common, int level) {
  if (level >= 0) return;  // Not a warning.
  // Of the warnings, these mean that pixels are lost.
  const int code = common->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE) {
    on_error(common);
  }
}

// Runs `body`, which calls libjpeg; returns false when libjpeg failed. libjpeg leaves it by longjmp
// then, which skips destructors: `body` must hold no object that has one. Not inlined, so that no
// variable of a caller is kept in a register across the jump.
template <typename Body>
[[gnu::noinline]] bool JpegDecoder::guarded(Body body) {
  if (setjmp(errors_.escape) != 0) return false;
  body();
  return true;
}

JpegDecoder::JpegDecoder() {
  decompress_.err = jpeg_std_error(&errors_.manager);
  errors_.manager.error_exit = on_error;
  errors_.manager.emit_message = on_message;
  const bool created = guarded([this] { jpeg_create_decompress(&decompress_); });
  GPEMU_CHECK(created, "libjpeg is not the version that gpemu was compiled for");
}

JpegDecoder::~JpegDecoder() {
  jpeg_destroy_decompress(&decompress_);
}

Result<ImageSize> JpegDecoder::open(std::span<const std::byte> jpeg) {
  jpeg_abort_decompress(&decompress_);
  if (jpeg.empty()) return fail(ErrorCode::kCorruptData, "the file is empty");
  const bool opened = guarded([&] {
    jpeg_mem_src(&decompress_, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
    jpeg_read_header(&decompress_, TRUE);
  });
  if (!opened) return failure();
  const ImageSize size{static_cast<int>(decompress_.image_width),
                       static_cast<int>(decompress_.image_height)};
  if (std::int64_t{size.width} * size.height > kMaxPixels) {
    return fail(ErrorCode::kCorruptData, "{} x {} pixels are more than the limit of {}", size.width,
                size.height, kMaxPixels);
  }
  return size;
}

Result<PixelView> JpegDecoder::decode(const Region& region) {
  const bool cmyk = decompress_.num_components == 4;
  decompress_.out_color_space = cmyk ? JCS_CMYK : JCS_EXT_RGBX;
  const auto image_width = static_cast<int>(decompress_.image_width);
  const int left = std::max(region.x - kMarginColumns, 0);
  const int right = std::min(region.x + region.width + kMarginColumns, image_width);
  // libjpeg moves `first` to the left as it needs.
  auto first = static_cast<JDIMENSION>(left);
  auto width = static_cast<JDIMENSION>(right - left);
  const auto top = static_cast<JDIMENSION>(region.y);
  const bool started = guarded([&] {
    jpeg_start_decompress(&decompress_);
    if (right - left < image_width) jpeg_crop_scanline(&decompress_, &first, &width);
    if (top > 0) jpeg_skip_scanlines(&decompress_, top);
  });
  if (!started) return failure();

  const std::size_t stride = width * kBytesPerPixel;
  const auto rows = static_cast<std::size_t>(region.height);
  reserve_rows(stride, rows);
  const auto end = top + static_cast<JDIMENSION>(region.height);
  if (!guarded([&] { read_rows(stride, end); })) return failure();
  if (cut_off()) return fail(ErrorCode::kCorruptData, "the image is cut off");
  if (cmyk) cmyk_to_rgb(std::span(pixels_).first(stride * rows));
  const std::size_t margin = static_cast<std::size_t>(region.x) - first;
  return PixelView{pixels_.data() + margin * kBytesPerPixel, stride, region.width, region.height};
}

Result<void> JpegDecoder::decode_and_drop() {
  if (!guarded([this] { jpeg_start_decompress(&decompress_); })) return failure();
  const std::size_t stride =
      std::size_t{decompress_.output_width} * static_cast<unsigned>(decompress_.output_components);
  reserve_rows(stride, decompress_.output_height);
  const bool decoded = guarded([&] {
    read_rows(stride, decompress_.output_height);
    jpeg_finish_decompress(&decompress_);
  });
  if (!decoded) return failure();
  return {};
}

void JpegDecoder::reserve_rows(std::size_t stride, std::size_t rows) {
  if (pixels_.size() < stride * rows) pixels_.resize(stride * rows);
}

void JpegDecoder::read_rows(std::size_t stride, JDIMENSION end) {
  // More rows than libjpeg yields at once: 2 for the common 4:2:0 subsampling, 4 at most.
  std::array<JSAMPROW, 4> rows{};
  std::uint8_t* next = pixels_.data();
  while (decompress_.output_scanline < end) {
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = next + i * stride;
    const JDIMENSION wanted = std::min<JDIMENSION>(rows.size(), end - decompress_.output_scanline);
    next += stride * jpeg_read_scanlines(&decompress_, rows.data(), wanted);
  }
}

// Rows below the region are not decoded, so only the marker that ends an image shows whether they
// are there at all: it cannot occur within the coded data.
bool JpegDecoder::cut_off() {
  if (decompress_.unread_marker == JPEG_EOI || jpeg_input_complete(&decompress_)) return false;
  const std::uint8_t* begin = decompress_.src->next_input_byte;
  for (std::size_t i = decompress_.src->bytes_in_buffer; i >= 2; --i) {
    if (begin[i - 2] == 0xFF && begin[i - 1] == JPEG_EOI) return false;
  }
  return true;
}

std::unexpected<Error> JpegDecoder::failure() const {
  return fail(ErrorCode::kCorruptData, "{}", errors_.message.data());
}

}  // namespace gpemu::data
