// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "gpemu/base/error.hpp"
#include "gpemu/data/region.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::data {

/// The random part of the training transform for one image.
struct Augmentation {
  Region crop;
  bool flip = false;
};

/// Draws a random resized crop (8 to 100 % of the area, aspect ratio 3:4 to 4:3; the centre if ten
/// tries do not fit) and a horizontal flip (one time in two).
///
/// Requires: size is positive. Source: defaults of torchvision's RandomResizedCrop and
/// RandomHorizontalFlip.
[[nodiscard]] Augmentation draw_augmentation(const ImageSize& size, sim::Rng& rng);

/// Decodes JPEG and PNG images and makes training samples of them. Keeps the decoder's state and
/// buffers, so that gpemu allocates nothing per image once they have grown.
///
/// Thread safety: none; each thread has its own.
class ImageTransform {
 public:
  /// `size` is the height and width of a sample. Requires: size > 0.
  explicit ImageTransform(int size = 224);
  ImageTransform(ImageTransform&&) noexcept;
  ImageTransform& operator=(ImageTransform&&) noexcept;
  ~ImageTransform();

  /// Makes a sample: random resized crop, resize (bilinear with antialiasing, like PIL's),
  /// horizontal flip, float32, normalised with ImageNet's mean and standard deviation. Returns the
  /// random choices.
  ///
  /// Only the rows of a JPEG down to the crop's end are decoded: damage below them goes unnoticed,
  /// but a truncated file does not. Shape of `output`: [3, size, size].
  ///
  /// Errors: kCorruptData saying what is wrong with the image; `output` is then unspecified.
  [[nodiscard]] Result<Augmentation> apply(std::span<const std::byte> image, sim::Rng& rng,
                                           std::span<float> output);

  /// Decodes a whole image to RGB and drops the pixels: the least cost of reading images.
  ///
  /// Errors: kCorruptData.
  [[nodiscard]] Result<ImageSize> decode_only(std::span<const std::byte> image);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpemu::data
