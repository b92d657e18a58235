// SPDX-License-Identifier: Apache-2.0
#include "resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gpemu::data {
namespace {

// Mean and standard deviation of ImageNet's colours, for values from 0 to 1. Source: torchvision's
// reference training scripts.
constexpr float kMean[3] = {0.485F, 0.456F, 0.406F};
constexpr float kStddev[3] = {0.229F, 0.224F, 0.225F};

}  // namespace

void ResizeFilter::assign(int original_size, int resized_size) {
  entries_.clear();
  weights_.clear();
  const double scale = static_cast<double>(original_size) / resized_size;
  const double radius = std::max(scale, 1.0);
  for (int position = 0; position < resized_size; ++position) {
    const double center = (position + 0.5) * scale;
    const int first = std::max(static_cast<int>(std::lround(center - radius)), 0);
    const int end = std::min(static_cast<int>(std::lround(center + radius)), original_size);
    const std::size_t offset = weights_.size();
    double total = 0;
    for (int i = first; i < end; ++i) {
      const double weight = std::max(1 - std::abs(i + 0.5 - center) / radius, 0.0);
      weights_.push_back(static_cast<float>(weight));
      total += weight;
    }
    for (std::size_t i = offset; i < weights_.size(); ++i) {
      weights_[i] /= static_cast<float>(total);
    }
    entries_.push_back({first, offset, weights_.size() - offset});
  }
}

// Rows first: what is left to do along the rows is then the resized number of them only, and the
// pass over all pixels is a sum of whole rows.
void Resizer::resize(const PixelView& pixels, bool flip, std::span<float> output) {
  horizontal_.assign(pixels.width, size_);
  vertical_.assign(pixels.height, size_);
  line_.resize(static_cast<std::size_t>(pixels.width) * 4);
  const auto size = static_cast<std::size_t>(size_);
  const std::size_t plane = size * size;
  constexpr Pixel kScale = {1 / (255 * kStddev[0]), 1 / (255 * kStddev[1]), 1 / (255 * kStddev[2]),
                            0};
  constexpr Pixel kShift = {-kMean[0] / kStddev[0], -kMean[1] / kStddev[1], -kMean[2] / kStddev[2],
                            0};
  for (int y = 0; y < size_; ++y) {
    blend_rows(pixels, vertical_.at(y));
    float* row = output.data() + static_cast<std::size_t>(y) * size;
    for (int x = 0; x < size_; ++x) {
      const ResizeFilter::Taps taps = horizontal_.at(x);
      const float* from = line_.data() + static_cast<std::size_t>(taps.first) * 4;
      Pixel sum = {};
      for (const float weight : taps.weights) {
        Pixel pixel;
        std::memcpy(&pixel, from, sizeof pixel);
        sum += pixel * weight;
        from += 4;
      }
      sum = sum * kScale + kShift;
      const int to = flip ? size_ - 1 - x : x;
      row[to] = sum[0];
      row[to + plane] = sum[1];
      row[to + 2 * plane] = sum[2];
    }
  }
}

void Resizer::blend_rows(const PixelView& pixels, const ResizeFilter::Taps& taps) {
  std::ranges::fill(line_, 0.0F);
  const std::size_t length = line_.size();
  float* const line = line_.data();
  for (std::size_t tap = 0; tap < taps.weights.size(); ++tap) {
    const std::uint8_t* row = pixels.row(taps.first + static_cast<int>(tap));
    const float weight = taps.weights[tap];
    for (std::size_t i = 0; i < length; ++i) line[i] += weight * static_cast<float>(row[i]);
  }
}

}  // namespace gpemu::data
