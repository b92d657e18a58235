// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/image.hpp"

#include <cmath>

#include "jpeg_decoder.hpp"
#include "png_decoder.hpp"
#include "resize.hpp"

namespace gpemu::data {
namespace {

// Source: defaults of torchvision's RandomResizedCrop and RandomHorizontalFlip.
constexpr double kMinScale = 0.08;
constexpr double kMaxScale = 1.0;
constexpr double kMinRatio = 3.0 / 4.0;
constexpr double kMaxRatio = 4.0 / 3.0;
constexpr int kTries = 10;
constexpr double kFlipProbability = 0.5;

/// Returns the largest crop in the middle whose aspect ratio is within the limits.
Region center_crop(const ImageSize& size) {
  const double ratio = static_cast<double>(size.width) / size.height;
  int width = size.width;
  int height = size.height;
  if (ratio < kMinRatio) height = static_cast<int>(std::lround(width / kMinRatio));
  if (ratio > kMaxRatio) width = static_cast<int>(std::lround(height * kMaxRatio));
  return {(size.width - width) / 2, (size.height - height) / 2, width, height};
}

Region draw_crop(const ImageSize& size, sim::Rng& rng) {
  const double area = static_cast<double>(size.width) * size.height;
  for (int i = 0; i < kTries; ++i) {
    const double target_area = area * rng.uniform(kMinScale, kMaxScale);
    const double ratio = std::exp(rng.uniform(std::log(kMinRatio), std::log(kMaxRatio)));
    const auto width = static_cast<int>(std::lround(std::sqrt(target_area * ratio)));
    const auto height = static_cast<int>(std::lround(std::sqrt(target_area / ratio)));
    if (width < 1 || width > size.width || height < 1 || height > size.height) continue;
    const auto y = static_cast<int>(rng.below(static_cast<unsigned>(size.height - height + 1)));
    const auto x = static_cast<int>(rng.below(static_cast<unsigned>(size.width - width + 1)));
    return {x, y, width, height};
  }
  return center_crop(size);
}

}  // namespace

Augmentation draw_augmentation(const ImageSize& size, sim::Rng& rng) {
  const Region crop = draw_crop(size, rng);
  return {crop, rng.uniform() < kFlipProbability};
}

struct ImageTransform::State {
  explicit State(int sample_size) : size(sample_size), resizer(sample_size) {}
  int size;
  JpegDecoder jpeg;
  PngDecoder png;
  Resizer resizer;

  Result<ImageSize> open(std::span<const std::byte> image) {
    opened_png = is_png(image);
    return opened_png ? png.open(image) : jpeg.open(image);
  }
  Result<PixelView> decode(const Region& region) {
    return opened_png ? png.decode(region) : jpeg.decode(region);
  }

  bool opened_png = false;
};

ImageTransform::ImageTransform(int size) : state_(std::make_unique<State>(size)) {
  GPEMU_CHECK(size > 0, "a sample has at least one pixel");
}
ImageTransform::ImageTransform(ImageTransform&&) noexcept = default;
ImageTransform& ImageTransform::operator=(ImageTransform&&) noexcept = default;
ImageTransform::~ImageTransform() = default;

Result<Augmentation> ImageTransform::apply(std::span<const std::byte> image, sim::Rng& rng,
                                           std::span<float> output) {
  const auto size = static_cast<std::size_t>(state_->size);
  GPEMU_CHECK(output.size() == 3 * size * size, "the output is one sample");
  GPEMU_ASSIGN(const ImageSize original, state_->open(image));
  const Augmentation drawn = draw_augmentation(original, rng);
  GPEMU_ASSIGN(const PixelView pixels, state_->decode(drawn.crop));
  state_->resizer.resize(pixels, drawn.flip, output);
  return drawn;
}

Result<ImageSize> ImageTransform::decode_only(std::span<const std::byte> image) {
  GPEMU_ASSIGN(const ImageSize size, state_->open(image));
  if (state_->opened_png) {
    GPEMU_TRY(state_->decode({0, 0, size.width, size.height}));
  } else {
    GPEMU_TRY(state_->jpeg.decode_and_drop());
  }
  return size;
}

}  // namespace gpemu::data
