// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/image.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <png.h>
#include <vector>
#include <zlib.h>

#include <gtest/gtest.h>

#include "png_decoder.hpp"
#include "test_jpeg.hpp"

namespace gpemu::data {
namespace {

constexpr double kMean[3] = {0.485, 0.456, 0.406};
constexpr double kStddev[3] = {0.229, 0.224, 0.225};

/// Resizes a line as Pillow documents its bilinear filter: a triangle over the reduced distance,
/// normalised, rounded to whole grey levels.
std::vector<double> resize_line(const std::vector<double>& line, int size) {
  const double scale = static_cast<double>(line.size()) / size;
  const double radius = std::max(1.0, scale);
  std::vector<double> resized;
  for (int to = 0; to < size; ++to) {
    double sum = 0;
    double weights = 0;
    for (std::size_t from = 0; from < line.size(); ++from) {
      const double distance = std::abs(static_cast<double>(from) + 0.5 - (to + 0.5) * scale);
      const double weight = std::max(0.0, 1 - distance / radius);
      sum += weight * line[from];
      weights += weight;
    }
    resized.push_back(std::round(sum / weights));
  }
  return resized;
}

std::size_t color_index(const ImageSize& image, int x, int y, int color) {
  const std::ptrdiff_t pixel = std::ptrdiff_t{y} * image.width + x;
  return static_cast<std::size_t>(pixel * 3 + color);
}

/// The transform in the plainest way: whole decode, crop, rows, columns, flip. One plane of grey
/// levels. Shape: [size, size].
std::vector<double> reference_plane(const std::vector<std::uint8_t>& whole, const ImageSize& image,
                                    const Augmentation& drawn, int color, int size) {
  std::vector<std::vector<double>> rows;
  for (int y = 0; y < drawn.crop.height; ++y) {
    std::vector<double> row;
    row.reserve(static_cast<std::size_t>(drawn.crop.width));
    for (int x = 0; x < drawn.crop.width; ++x) {
      row.push_back(whole[color_index(image, drawn.crop.x + x, drawn.crop.y + y, color)]);
    }
    rows.push_back(resize_line(row, size));
  }
  const auto length = static_cast<std::size_t>(size);
  std::vector<double> plane(length * length);
  for (std::size_t x = 0; x < length; ++x) {
    std::vector<double> column(rows.size());
    std::ranges::transform(rows, column.begin(), [x](const auto& row) { return row[x]; });
    column = resize_line(column, size);
    const std::size_t to = drawn.flip ? length - 1 - x : x;
    for (std::size_t y = 0; y < length; ++y) plane[y * length + to] = column[y];
  }
  return plane;
}

class ImageTransformSize : public testing::TestWithParam<ImageSize> {};

TEST_P(ImageTransformSize, MatchesThePlainTransformToAGreyLevel) {
  const ImageSize image = GetParam();
  const auto jpeg = make_test_jpeg(image);
  const auto whole = decode_test_jpeg(jpeg);
  constexpr int kSize = 56;
  ImageTransform transform(kSize);
  std::vector<float> output(std::size_t{3} * kSize * kSize);
  int flips = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    sim::Rng rng(seed);
    const auto drawn = transform.apply(jpeg, rng, output);
    ASSERT_TRUE(drawn.has_value());
    flips += drawn->flip ? 1 : 0;
    double largest = 0;
    for (int color = 0; color < 3; ++color) {
      const auto plane = reference_plane(whole, image, *drawn, color, kSize);
      for (std::size_t i = 0; i < plane.size(); ++i) {
        const double normalised = output[static_cast<std::size_t>(color) * plane.size() + i];
        const double level = (normalised * kStddev[color] + kMean[color]) * 255;
        largest = std::max(largest, std::abs(level - plane[i]));
      }
    }
    // Half a level for each of the reference's two roundings.
    EXPECT_LE(largest, 1.01) << "seed " << seed;
  }
  EXPECT_GT(flips, 0);
  EXPECT_LT(flips, 8);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ImageTransformSize,
                         testing::Values(ImageSize{200, 150}, ImageSize{90, 333}, ImageSize{30, 20},
                                         ImageSize{400, 57}, ImageSize{1, 1}));

TEST(ImageTransform, DependsOnTheRandomNumbersOnly) {
  const auto jpeg = make_test_jpeg({120, 90});
  const auto other = make_test_jpeg({300, 200}, {}, 2);
  std::vector<float> first(std::size_t{3} * 32 * 32);
  std::vector<float> second(first.size());
  ImageTransform used(32);
  sim::Rng other_rng(9);
  ASSERT_TRUE(used.apply(other, other_rng, first).has_value());
  sim::Rng rng(4, 2, 17);
  ASSERT_TRUE(used.apply(jpeg, rng, first).has_value());
  sim::Rng same_rng(4, 2, 17);
  ASSERT_TRUE(ImageTransform(32).apply(jpeg, same_rng, second).has_value());
  EXPECT_EQ(first, second);
}

TEST(DrawAugmentation, StaysWithinItsLimits) {
  const ImageSize size{500, 375};
  sim::Rng rng(1);
  int flips = 0;
  double mean_share = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const auto [crop, flip] = draw_augmentation(size, rng);
    ASSERT_GE(crop.x, 0);
    ASSERT_GE(crop.y, 0);
    ASSERT_LE(crop.x + crop.width, size.width);
    ASSERT_LE(crop.y + crop.height, size.height);
    const double ratio = static_cast<double>(crop.width) / crop.height;
    EXPECT_GT(ratio, 0.75 * 0.98);
    EXPECT_LT(ratio, 4.0 / 3 * 1.02);
    const double share = static_cast<double>(crop.width) * crop.height / (500.0 * 375.0);
    EXPECT_GT(share, 0.08 * 0.98);
    mean_share += share / kDraws;
    flips += flip ? 1 : 0;
  }
  // Source: 200,000 draws of the published algorithm in Python. Below the 0.54 of a uniform share,
  // because large crops often do not fit.
  EXPECT_NEAR(mean_share, 0.434, 0.02);
  // Six standard deviations of a binomial with n = 4000, p = 1/2.
  EXPECT_NEAR(flips, kDraws * 0.5, 190);
}

TEST(DrawAugmentation, TakesTheCentreOfAnImageThatNoCropFits) {
  sim::Rng rng(1);
  const Region wide = draw_augmentation({1000, 6}, rng).crop;
  EXPECT_EQ(wide.height, 6);
  EXPECT_EQ(wide.width, 8);
  EXPECT_EQ(wide.x, 496);
  const Region tall = draw_augmentation({6, 1000}, rng).crop;
  EXPECT_EQ(tall.width, 6);
  EXPECT_EQ(tall.height, 8);
  EXPECT_EQ(tall.y, 496);
}

/// Encodes pixels by libpng's simplest calls.
std::vector<std::byte> make_png(const std::vector<std::uint8_t>& pixels, const ImageSize& size,
                                png_uint_32 format) {
  png_image image{.version = PNG_IMAGE_VERSION,
                  .width = static_cast<png_uint_32>(size.width),
                  .height = static_cast<png_uint_32>(size.height),
                  .format = format};
  png_alloc_size_t bytes = 0;
  GPEMU_CHECK(png_image_write_to_memory(&image, nullptr, &bytes, 0, pixels.data(), 0, nullptr),
              "libpng says how large an image becomes");
  std::vector<std::byte> png(bytes);
  GPEMU_CHECK(png_image_write_to_memory(&image, png.data(), &bytes, 0, pixels.data(), 0, nullptr),
              "libpng encodes");
  png.resize(bytes);
  return png;
}

TEST(ImageTransform, MakesTheSameSampleOfAPngAsOfItsPixels) {
  const ImageSize size{64, 48};
  const std::vector<std::uint8_t> rgb = test_pixels(size, 3, 1);
  // With an alpha channel, which is ignored.
  std::vector<std::uint8_t> rgba;
  for (std::size_t i = 0; i < rgb.size(); i += 3) {
    rgba.insert(rgba.end(), {rgb[i], rgb[i + 1], rgb[i + 2], static_cast<std::uint8_t>(i)});
  }
  ImageTransform transform(16);
  std::vector<float> from_rgb(768);
  std::vector<float> from_rgba(768);
  sim::Rng one(3);
  sim::Rng other(3);
  ASSERT_TRUE(transform.apply(make_png(rgb, size, PNG_FORMAT_RGB), one, from_rgb));
  ASSERT_TRUE(transform.apply(make_png(rgba, size, PNG_FORMAT_RGBA), other, from_rgba));
  EXPECT_EQ(from_rgb, from_rgba);
  PngDecoder decoder;
  const auto png = make_png(rgb, size, PNG_FORMAT_RGB);
  ASSERT_TRUE(decoder.open(png));
  const PixelView pixels = decoder.decode({2, 1, 3, 4}).value();
  EXPECT_EQ(pixels.width, 3);
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 3; ++x) {
      for (int c = 0; c < 3; ++c) {
        EXPECT_EQ(pixels.row(y)[x * 4 + c],
                  rgb[static_cast<std::size_t>(((y + 1) * 64 + x + 2) * 3 + c)]);
      }
    }
  }
}

TEST(ImageTransform, ExpandsGreyPngs) {
  const ImageSize size{8, 8};
  const auto png = make_png(test_pixels(size, 1, 2), size, PNG_FORMAT_GRAY);
  PngDecoder decoder;
  ASSERT_TRUE(decoder.open(png));
  const PixelView pixels = decoder.decode({0, 0, 8, 8}).value();
  EXPECT_EQ(pixels.row(3)[0], test_pixels(size, 1, 2)[24]);
  EXPECT_EQ(pixels.row(3)[1], pixels.row(3)[0]);
}

TEST(ImageTransform, RefusesDamagedPngs) {
  const ImageSize size{40, 40};
  const auto png = make_png(test_pixels(size, 3, 3), size, PNG_FORMAT_RGB);
  ImageTransform transform(16);
  std::vector<float> output(768);
  for (std::size_t kept = 0; kept < png.size(); kept += 7) {
    sim::Rng rng(1);
    const auto drawn = transform.apply(std::span(png).first(kept), rng, output);
    ASSERT_FALSE(drawn) << kept;
    EXPECT_EQ(drawn.error().code, ErrorCode::kCorruptData);
    EXPECT_FALSE(drawn.error().message.empty());
  }
  for (std::size_t i = 8; i < png.size(); ++i) {
    auto changed = png;
    changed[i] ^= std::byte{0x10};
    static_cast<void>(transform.decode_only(changed));
  }
  // 100,000 x 100,000 pixels are promised; the checksum of the header is right.
  auto bomb = png;
  const std::array<unsigned char, 8> large = {0, 1, 0x86, 0xa0, 0, 1, 0x86, 0xa0};
  std::memcpy(bomb.data() + 16, large.data(), large.size());
  const auto crc = static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const unsigned char*>(bomb.data() + 12), 17));
  for (std::size_t i = 0; i < 4; ++i) {
    bomb[29 + i] = static_cast<std::byte>(crc >> (24 - 8 * i));
  }
  const auto opened = transform.decode_only(bomb);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("100000 x 100000 pixels"), std::string::npos)
      << opened.error().message;
}

}  // namespace
}  // namespace gpemu::data
