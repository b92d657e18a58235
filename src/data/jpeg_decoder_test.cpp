// SPDX-License-Identifier: Apache-2.0
#include "jpeg_decoder.hpp"

#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

#include "test_jpeg.hpp"

namespace gpemu::data {
namespace {

Region random_region(const ImageSize& size, sim::Rng& rng) {
  const auto below = [&](int bound) {
    return static_cast<int>(rng.below(static_cast<unsigned>(bound)));
  };
  const int x = below(size.width);
  const int y = below(size.height);
  return {x, y, 1 + below(size.width - x), 1 + below(size.height - y)};
}

/// Returns how many pixels of the region differ from those of the whole image.
int count_differences(const PixelView& pixels, const Region& region,
                      const std::vector<std::uint8_t>& whole, int image_width) {
  int differences = 0;
  for (int y = 0; y < region.height; ++y) {
    const std::ptrdiff_t first = std::ptrdiff_t{region.y + y} * image_width + region.x;
    const std::uint8_t* expected = whole.data() + first * 3;
    const std::uint8_t* actual = pixels.row(y);
    for (int x = 0; x < region.width; ++x) {
      if (std::memcmp(actual, expected, 3) != 0) ++differences;
      actual += 4;
      expected += 3;
    }
  }
  return differences;
}

class JpegDecoderRegion : public testing::TestWithParam<TestJpeg> {};

TEST_P(JpegDecoderRegion, EqualsThatOfTheWholeImage) {
  JpegDecoder decoder;
  sim::Rng rng(5);
  for (const ImageSize size : {ImageSize{211, 163}, {64, 96}, {37, 9}, {5, 40}, {1, 1}}) {
    const std::vector<std::byte> jpeg = make_test_jpeg(size, GetParam());
    const std::vector<std::uint8_t> whole = decode_test_jpeg(jpeg);
    for (int i = 0; i < 100; ++i) {
      const Region region = random_region(size, rng);
      ASSERT_TRUE(decoder.open(jpeg).has_value());
      const auto pixels = decoder.decode(region);
      ASSERT_TRUE(pixels.has_value()) << pixels.error().message;
      ASSERT_EQ(count_differences(*pixels, region, whole, size.width), 0)
          << size.width << 'x' << size.height << ": " << region.x << ' ' << region.y << ' '
          << region.width << ' ' << region.height;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, JpegDecoderRegion,
    testing::Values(TestJpeg{}, TestJpeg{.horizontal_subsampling = 1, .vertical_subsampling = 1},
                    TestJpeg{.vertical_subsampling = 1}, TestJpeg{.horizontal_subsampling = 1},
                    TestJpeg{.horizontal_subsampling = 4, .vertical_subsampling = 1},
                    TestJpeg{.components = 1}, TestJpeg{.progressive = true},
                    TestJpeg{.restart_interval = 2}));

TEST(JpegDecoder, ConvertsInvertedCmyk) {
  // One flat colour survives compression; the file holds 255 - ink.
  const std::vector<std::uint8_t> ink = {200, 150, 100, 180};
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 32 * 32; ++i) pixels.insert(pixels.end(), ink.begin(), ink.end());
  const ImageSize size{32, 32};
  const auto jpeg = encode_test_jpeg(pixels, size, {.components = 4, .quality = 100});
  JpegDecoder decoder;
  ASSERT_TRUE(decoder.open(jpeg).has_value());
  const auto view = decoder.decode({3, 5, 20, 20});
  ASSERT_TRUE(view.has_value());
  EXPECT_NEAR(view->row(7)[0], 200 * 180 / 255.0, 2);
  EXPECT_NEAR(view->row(7)[1], 150 * 180 / 255.0, 2);
  EXPECT_NEAR(view->row(7)[2], 100 * 180 / 255.0, 2);
}

TEST(JpegDecoder, RefusesAnImageThatIsCutOffAnywhere) {
  const ImageSize size{160, 120};
  const Region top_left{0, 0, 16, 16};
  JpegDecoder decoder;
  for (const bool progressive : {false, true}) {
    const auto jpeg = make_test_jpeg(size, {.progressive = progressive, .restart_interval = 1});
    for (std::size_t length = 0; length < jpeg.size() - 1; length += 7) {
      const auto part = std::span(jpeg).first(length);
      if (const auto opened = decoder.open(part); !opened) {
        EXPECT_EQ(opened.error().code, ErrorCode::kCorruptData);
        continue;
      }
      const auto pixels = decoder.decode(top_left);
      ASSERT_FALSE(pixels.has_value()) << length << " of " << jpeg.size() << " bytes";
      EXPECT_EQ(pixels.error().code, ErrorCode::kCorruptData);
      EXPECT_FALSE(pixels.error().message.empty());
    }
  }
}

TEST(JpegDecoder, RefusesWhatIsNoJpegAndGoesOnWithTheNextImage) {
  JpegDecoder decoder;
  EXPECT_EQ(decoder.open({}).error().message, "the file is empty");
  const std::string text = "GIF89a: not a JPEG at all";
  const auto opened = decoder.open(std::as_bytes(std::span(text)));
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kCorruptData);

  const auto good = make_test_jpeg({40, 30});
  ASSERT_TRUE(decoder.open(good).has_value());
  EXPECT_TRUE(decoder.decode({0, 0, 40, 30}).has_value());
}

TEST(JpegDecoder, SurvivesDamagedImages) {
  const auto sound = make_test_jpeg({80, 60});
  JpegDecoder decoder;
  int refused = 0;
  constexpr std::uint64_t kImages = 400;
  for (std::uint64_t seed = 0; seed < kImages; ++seed) {
    sim::Rng rng(seed);
    auto jpeg = sound;
    for (int i = 0; i < 4; ++i) jpeg[rng.below(jpeg.size())] = static_cast<std::byte>(rng.bits());
    const auto size = decoder.open(jpeg);
    if (!size || !decoder.decode({0, 0, size->width, size->height})) ++refused;
  }
  // Damage that leaves valid codes cannot be told from an image.
  EXPECT_GT(refused, 0);
  ASSERT_TRUE(decoder.open(sound).has_value());
  EXPECT_TRUE(decoder.decode({0, 0, 80, 60}).has_value());
}

TEST(JpegDecoder, ToleratesBytesAfterTheImage) {
  auto jpeg = make_test_jpeg({64, 64});
  jpeg.resize(jpeg.size() + 1000);
  JpegDecoder decoder;
  ASSERT_TRUE(decoder.open(jpeg).has_value());
  EXPECT_TRUE(decoder.decode({0, 0, 8, 8}).has_value());
}

TEST(JpegDecoder, DropsAWholeImageOnlyWhenItIsSound) {
  const auto jpeg = make_test_jpeg({64, 64}, {.components = 4});
  JpegDecoder decoder;
  ASSERT_TRUE(decoder.open(jpeg).has_value());
  EXPECT_TRUE(decoder.decode_and_drop().has_value());
  ASSERT_TRUE(decoder.open(std::span(jpeg).first(jpeg.size() / 2)).has_value());
  EXPECT_FALSE(decoder.decode_and_drop().has_value());
}

}  // namespace
}  // namespace gpemu::data
