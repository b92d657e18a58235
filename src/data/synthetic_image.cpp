// SPDX-License-Identifier: Apache-2.0
#include "synthetic_image.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace gpemu::data {
namespace {

// The median photograph of ImageNet: 500 x 375 pixels in 108 KB. Larger files have both more pixels
// and, up to what textures that look like photographs' need, more bytes per pixel.
constexpr double kMedianPixels = 500 * 375;
constexpr double kMedianBytes = 108e3;
constexpr double kMinBytesPerPixel = 0.2;
constexpr double kMaxBytesPerPixel = 0.75;
constexpr double kPixelGrowth = 0.75;

constexpr int kMinQuality = 75;
constexpr int kMaxQuality = 95;
// Grey levels. Less is invisible; more would be clipped at black and white.
constexpr double kMinTexture = 0.5;
constexpr double kMaxTexture = 60;
// Where the search starts: fits of typical images.
constexpr double kTypicalTexture = 45;  // Grey levels per byte per pixel.
constexpr double kTypicalPower = 0.5;
constexpr double kSizeTolerance = 0.02;
constexpr int kSizeTries = 8;

// A macroblock of 4:2:0 subsampling.
constexpr int kBlock = 16;

int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

ImageSize draw_size(Bytes target, sim::Rng& rng) {
  const auto bytes = static_cast<double>(target);
  const double spread = std::exp(rng.uniform(-0.15, 0.15));
  const double pixels =
      std::clamp(kMedianPixels * std::pow(bytes / kMedianBytes, kPixelGrowth) * spread,
                 bytes / kMaxBytesPerPixel, bytes / kMinBytesPerPixel);
  // Most photographs are landscapes of 4:3 or 3:2.
  constexpr std::array<double, 6> kRatios = {4.0 / 3, 4.0 / 3, 4.0 / 3, 3.0 / 2, 1.0, 3.0 / 4};
  const double ratio = kRatios.at(rng.below(kRatios.size()));
  return {std::max(kBlock, static_cast<int>(std::lround(std::sqrt(pixels * ratio)))),
          std::max(kBlock, static_cast<int>(std::lround(std::sqrt(pixels / ratio))))};
}

[[noreturn]] void on_error(j_common_ptr common) {
  std::array<char, JMSG_LENGTH_MAX> message{};
  common->err->format_message(common, message.data());
  internal::check_failed(__FILE__, __LINE__, "libjpeg encodes", message.data());
}

std::uint8_t to_byte(float level) {
  return static_cast<std::uint8_t>(std::clamp(level, 0.0F, 255.0F));
}

void to_bytes(std::span<const float> levels, std::vector<std::uint8_t>& bytes) {
  bytes.resize(levels.size());
  for (std::size_t i = 0; i < levels.size(); ++i) bytes[i] = to_byte(levels[i]);
}

}  // namespace

ImageSynthesizer::ImageSynthesizer() {
  compress_.err = jpeg_std_error(&errors_);
  errors_.error_exit = on_error;
  jpeg_create_compress(&compress_);
}

ImageSynthesizer::~ImageSynthesizer() {
  jpeg_destroy_compress(&compress_);
}

std::span<const std::byte> ImageSynthesizer::make(Bytes target, sim::Rng& rng) {
  const ImageSize size = draw_size(target, rng);
  const double bytes_per_pixel =
      static_cast<double>(target) / (static_cast<double>(size.width) * size.height);
  // Many bytes per pixel come from a high quality more than from a strong texture.
  const double least = std::lerp(kMinQuality, kMaxQuality, std::min(0.7 * bytes_per_pixel, 0.9));
  int quality = static_cast<int>(rng.uniform(least, kMaxQuality + 1));
  draw_content(size, rng);

  // Newton's method on logarithms: the size grows as a power of the texture's strength, which the
  // last two tries tell. Where no strength fits, the quality changes.
  const auto wanted = static_cast<double>(target);
  double strength = std::clamp(kTypicalTexture * bytes_per_pixel, kMinTexture, kMaxTexture);
  double power = kTypicalPower;
  double old_strength = 0;
  double old_length = 0;
  std::size_t length = 0;
  for (int i = 0; i < kSizeTries; ++i) {
    length = encode(size, quality, static_cast<float>(strength));
    const double ratio = static_cast<double>(length) / wanted;
    if (std::abs(ratio - 1) <= kSizeTolerance) break;
    if (old_length > 0) {
      const double slope =
          std::log(static_cast<double>(length) / old_length) / std::log(strength / old_strength);
      power = std::isfinite(slope) ? std::clamp(slope, 0.2, 2.0) : kTypicalPower;
    }
    old_strength = strength;
    old_length = static_cast<double>(length);
    strength *= std::pow(ratio, -1 / power);
    if (strength < kMinTexture || strength > kMaxTexture) {
      quality = std::clamp(quality + (ratio > 1 ? -5 : 5), kMinQuality, kMaxQuality);
      strength = std::clamp(strength, kMinTexture, kMaxTexture);
      old_length = 0;
    }
  }
  return std::as_bytes(std::span(jpeg_).first(length));
}

void ImageSynthesizer::Plane::reset(int new_width, int new_height, float value) {
  width = new_width;
  height = new_height;
  values.assign(static_cast<std::size_t>(width) * static_cast<std::size_t>(height), value);
}

// Natural images have about equal contrast in each octave of scale (their amplitude spectrum falls
// as 1/f; Field 1987), less in the finest one, which lenses blur and sensors fill with noise.
void ImageSynthesizer::draw_content(const ImageSize& size, sim::Rng& rng) {
  const int width = round_up(size.width, kBlock);
  const int height = round_up(size.height, kBlock);
  luma_.reset(width, height, static_cast<float>(rng.uniform(90, 165)));
  chroma_blue_.reset(width / 2, height / 2, static_cast<float>(rng.uniform(110, 140)));
  chroma_red_.reset(width / 2, height / 2, static_cast<float>(rng.uniform(115, 150)));
  for (const int spacing : {128, 64, 32}) {
    add_noise(luma_, spacing, 22, rng);
    add_noise(chroma_blue_, spacing / 2, 7, rng);
    add_noise(chroma_red_, spacing / 2, 7, rng);
  }
  const auto shapes = 6 + rng.below(14);
  for (std::uint64_t i = 0; i < shapes; ++i) add_shape(size, rng);
  texture_.reset(width, height, 0);
  add_noise(texture_, 16, 0.7F, rng);
  add_noise(texture_, 8, 1, rng);
  add_noise(texture_, 4, 1, rng);
  add_noise(texture_, 2, 1, rng);
  add_noise(texture_, 1, 0.8F, rng);
  add_noise(chroma_blue_, 4, 3, rng);
  add_noise(chroma_red_, 4, 3, rng);
  to_bytes(chroma_blue_.values, blue_bytes_);
  to_bytes(chroma_red_.values, red_bytes_);
}

// Adds noise that is drawn on a lattice and interpolated linearly in between.
void ImageSynthesizer::add_noise(Plane& plane, int spacing, float amplitude, sim::Rng& rng) {
  draw_lattice_row(spacing, plane.width, rng, upper_);
  draw_lattice_row(spacing, plane.width, rng, lower_);
  for (int y = 0; y < plane.height; ++y) {
    const float weight = static_cast<float>(y % spacing) / static_cast<float>(spacing);
    if (y > 0 && y % spacing == 0) {
      std::swap(upper_, lower_);
      draw_lattice_row(spacing, plane.width, rng, lower_);
    }
    float* const row = plane.row(y);
    const float* const upper = upper_.data();
    const float* const lower = lower_.data();
    for (int x = 0; x < plane.width; ++x) {
      row[x] += amplitude * (upper[x] + weight * (lower[x] - upper[x]));
    }
  }
}

// Draws a row of the lattice, values in [-1, 1), and expands it to `width` columns.
void ImageSynthesizer::draw_lattice_row(int spacing, int width, sim::Rng& rng,
                                        std::vector<float>& row) {
  row.resize(static_cast<std::size_t>(width));
  std::uint64_t bits = 0;
  int bytes_left = 0;
  const auto draw = [&] {
    if (bytes_left == 0) {
      bits = rng.bits();
      bytes_left = 8;
    }
    --bytes_left;
    return static_cast<float>(static_cast<std::int8_t>(bits >> (8 * bytes_left))) / 128;
  };
  float left = draw();
  for (int x = 0; x < width; x += spacing) {
    const float right = draw();
    const float step = (right - left) / static_cast<float>(spacing);
    const int end = std::min(x + spacing, width);
    for (int i = x; i < end; ++i) {
      row[static_cast<std::size_t>(i)] = left + step * static_cast<float>(i - x);
    }
    left = right;
  }
}

// Lays a shaded ellipse over the image: an object with a sharp edge.
void ImageSynthesizer::add_shape(const ImageSize& size, sim::Rng& rng) {
  const double center_x = rng.uniform(0, size.width);
  const double center_y = rng.uniform(0, size.height);
  const double radius_x = size.width * rng.uniform(0.03, 0.3);
  const double radius_y = size.height * rng.uniform(0.03, 0.3);
  const auto shade = static_cast<float>(rng.uniform(-55, 55));
  const auto blue = static_cast<float>(rng.uniform(-25, 25));
  const auto red = static_cast<float>(rng.uniform(-25, 25));
  const int top = std::max(0, static_cast<int>(center_y - radius_y));
  const int bottom = std::min(luma_.height, static_cast<int>(center_y + radius_y));
  for (int y = top; y < bottom; ++y) {
    const double distance = (y - center_y) / radius_y;
    const double half_width = radius_x * std::sqrt(std::max(0.0, 1 - distance * distance));
    const int left = std::clamp(static_cast<int>(center_x - half_width), 0, luma_.width);
    const int right = std::clamp(static_cast<int>(center_x + half_width), left, luma_.width);
    const float light = shade + 10 * static_cast<float>(distance);
    float* const row = luma_.row(y);
    for (int x = left; x < right; ++x) row[x] += light;
    if (y % 2 != 0) continue;
    float* const blue_row = chroma_blue_.row(y / 2);
    float* const red_row = chroma_red_.row(y / 2);
    for (int x = left / 2; x < right / 2; ++x) {
      blue_row[x] += blue;
      red_row[x] += red;
    }
  }
}

std::size_t ImageSynthesizer::encode(const ImageSize& size, int quality, float texture_strength) {
  luma_bytes_.resize(luma_.values.size());
  const float* const base = luma_.values.data();
  const float* const texture = texture_.values.data();
  for (std::size_t i = 0; i < luma_bytes_.size(); ++i) {
    luma_bytes_[i] = to_byte(base[i] + texture_strength * texture[i]);
  }
  // No coefficient of 4:2:0 takes more than two bytes: with room for that nothing is reallocated.
  constexpr std::size_t kHeaderBytes = 2048;
  jpeg_.resize(luma_bytes_.size() * 3 + kHeaderBytes);
  unsigned char* memory = jpeg_.data();
  unsigned long length = jpeg_.size();
  jpeg_mem_dest(&compress_, &memory, &length);
  compress_.image_width = static_cast<JDIMENSION>(size.width);
  compress_.image_height = static_cast<JDIMENSION>(size.height);
  compress_.input_components = 3;
  compress_.in_color_space = JCS_YCbCr;
  jpeg_set_defaults(&compress_);  // 4:2:0.
  jpeg_set_quality(&compress_, quality, TRUE);
  compress_.raw_data_in = TRUE;
  jpeg_start_compress(&compress_, TRUE);
  write_blocks();
  jpeg_finish_compress(&compress_);
  GPEMU_CHECK(memory == jpeg_.data(), "the image fits into its buffer");
  return length;
}

void ImageSynthesizer::write_blocks() {
  std::array<JSAMPROW, kBlock> luma{};
  std::array<JSAMPROW, kBlock / 2> blue{};
  std::array<JSAMPROW, kBlock / 2> red{};
  JSAMPARRAY planes[3] = {luma.data(), blue.data(), red.data()};
  const auto luma_width = static_cast<std::size_t>(luma_.width);
  const auto chroma_width = static_cast<std::size_t>(chroma_blue_.width);
  while (compress_.next_scanline < compress_.image_height) {
    const std::size_t y = compress_.next_scanline;
    for (std::size_t i = 0; i < luma.size(); ++i) {
      luma.at(i) = luma_bytes_.data() + (y + i) * luma_width;
    }
    for (std::size_t i = 0; i < blue.size(); ++i) {
      blue.at(i) = blue_bytes_.data() + (y / 2 + i) * chroma_width;
      red.at(i) = red_bytes_.data() + (y / 2 + i) * chroma_width;
    }
    jpeg_write_raw_data(&compress_, planes, kBlock);
  }
}

}  // namespace gpemu::data
