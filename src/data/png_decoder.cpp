// SPDX-License-Identifier: Apache-2.0
#include "png_decoder.hpp"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <png.h>
#include <string>

namespace gpemu::data {
namespace {

constexpr std::size_t kSignatureBytes = 8;
constexpr std::size_t kPngPixelBytes = 4;
// A header that promises more is a lie, and must not take the host's memory. Source: zlib's
// technical details, "Maximum Compression Factor".
constexpr std::size_t kMostDeflated = 1032;

/// What libpng's callbacks find.
struct PngState {
  std::span<const std::byte> rest;
  std::jmp_buf escape;
  std::array<char, 128> message;
};

[[noreturn]] void on_png_error(png_structp png, png_const_charp message) {
  auto* state = static_cast<PngState*>(png_get_error_ptr(png));
  std::strncpy(state->message.data(), message, state->message.size() - 1);
  std::longjmp(state->escape, 1);
}

void on_png_warning(png_structp /*png*/, png_const_charp /*message*/) {}

void read_png(png_structp png, png_bytep bytes, std::size_t size) {
  auto* state = static_cast<PngState*>(png_get_io_ptr(png));
  if (size > state->rest.size()) png_error(png, "the image is cut off");
  std::memcpy(bytes, state->rest.data(), size);
  state->rest = state->rest.subspan(size);
}

/// libpng's objects for one image.
class PngRead {
 public:
  explicit PngRead(std::span<const std::byte> bytes) {
    state_.rest = bytes;
    state_.message = {};
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state_, on_png_error, on_png_warning);
    GPEMU_CHECK(png_ != nullptr, "libpng is the version that gpemu was compiled for");
    info_ = png_create_info_struct(png_);
    GPEMU_CHECK(info_ != nullptr, "libpng has memory for an image's header");
    png_set_read_fn(png_, &state_, read_png);
  }
  PngRead(const PngRead&) = delete;
  PngRead& operator=(const PngRead&) = delete;
  ~PngRead() { png_destroy_read_struct(&png_, &info_, nullptr); }

  // Runs `body`, which calls libpng; returns false when libpng failed. libpng leaves it by longjmp
  // then, which skips destructors: `body` must hold no object that has one. Not inlined, so that no
  // variable of a caller is kept in a register across the jump.
  template <typename Body>
  [[gnu::noinline]] bool guarded(Body body) {
    if (setjmp(state_.escape) != 0) return false;
    body(png_, info_);
    return true;
  }

  [[nodiscard]] std::unexpected<Error> failure() const {
    return fail(ErrorCode::kCorruptData, "{}", state_.message.data());
  }

 private:
  PngState state_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

bool is_png(std::span<const std::byte> bytes) {
  return bytes.size() >= kSignatureBytes &&
         png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, kSignatureBytes) == 0;
}

Result<ImageSize> PngDecoder::open(std::span<const std::byte> png) {
  PngRead read(png);
  ImageSize size;
  std::size_t row_bytes = 0;
  const bool opened = read.guarded([&](png_structp reader, png_infop info) {
    png_read_info(reader, info);
    size.width = static_cast<int>(png_get_image_width(reader, info));
    size.height = static_cast<int>(png_get_image_height(reader, info));
    row_bytes = png_get_rowbytes(reader, info);
  });
  if (!opened) return read.failure();
  if (static_cast<std::size_t>(size.height) * row_bytes / kMostDeflated > png.size()) {
    return fail(ErrorCode::kCorruptData, "{} bytes cannot hold {} x {} pixels", png.size(),
                size.width, size.height);
  }
  if (std::int64_t{size.width} * size.height > kMaxPixels) {
    return fail(ErrorCode::kCorruptData, "{} x {} pixels are more than the limit of {}", size.width,
                size.height, kMaxPixels);
  }
  png_ = png;
  size_ = size;
  return size;
}

Result<PixelView> PngDecoder::decode(const Region& region) {
  const auto width = static_cast<std::size_t>(size_.width);
  const auto height = static_cast<std::size_t>(size_.height);
  const std::size_t stride = width * kPngPixelBytes;
  if (pixels_.size() < stride * height) pixels_.resize(stride * height);
  rows_.resize(height);
  for (std::size_t y = 0; y < height; ++y) rows_[y] = pixels_.data() + y * stride;
  PngRead read(png_);
  bool as_expected = false;
  const bool decoded = read.guarded([&](png_structp reader, png_infop info) {
    png_read_info(reader, info);
    png_set_expand(reader);  // Palettes, few bits per pixel, and transparent colours.
    png_set_strip_16(reader);
    png_set_gray_to_rgb(reader);
    png_set_filler(reader, 0, PNG_FILLER_AFTER);
    png_set_interlace_handling(reader);
    png_read_update_info(reader, info);
    as_expected = png_get_rowbytes(reader, info) == stride;
    if (!as_expected) return;
    png_read_image(reader, rows_.data());
    png_read_end(reader, nullptr);
  });
  if (!decoded) return read.failure();
  if (!as_expected) return fail(ErrorCode::kCorruptData, "the kind of pixels is not known");
  const std::uint8_t* first = rows_[static_cast<std::size_t>(region.y)] +
                              static_cast<std::size_t>(region.x) * kPngPixelBytes;
  return PixelView{first, stride, region.width, region.height};
}

}  // namespace gpemu::data
