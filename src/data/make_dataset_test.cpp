// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/make_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/data/dataset.hpp"
#include "gpemu/data/image.hpp"

namespace gpemu::data {
namespace {

namespace fs = std::filesystem;

class MakeDatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    parent_ = fs::path(testing::TempDir()) /
              ("gpemu_make_" + std::to_string(::getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(parent_);
    folder_ = parent_ / "set";
  }
  void TearDown() override { fs::remove_all(parent_); }

  static std::string content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  [[nodiscard]] std::size_t entries_beside() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(parent_), fs::directory_iterator()));
  }

  fs::path parent_;
  fs::path folder_;
};

TEST_F(MakeDatasetTest, FollowsTheSizeDistribution) {
  const MakeDatasetOptions options{.images = 40, .classes = 3, .seed = 5, .threads = 2};
  const auto made = make_dataset(folder_, options);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const auto dataset = Dataset::open(folder_).value();
  EXPECT_EQ(dataset.classes(), (std::vector<std::string>{"class_000", "class_001", "class_002"}));
  std::vector<double> kilobytes;
  ImageTransform decoder;
  for (const Sample& sample : dataset.samples()) {
    const std::string jpeg = content(dataset.files()[sample.unit]);
    kilobytes.push_back(static_cast<double>(jpeg.size()) / 1000);
    const auto size = decoder.decode_only(std::as_bytes(std::span(jpeg)));
    ASSERT_TRUE(size.has_value()) << size.error().message;
    const double pixels = static_cast<double>(size->width) * size->height;
    EXPECT_GT(kilobytes.back() * 1000 / pixels, 0.15);
    EXPECT_LT(kilobytes.back() * 1000 / pixels, 0.85);
  }
  ASSERT_EQ(kilobytes.size(), 40U);
  std::ranges::sort(kilobytes);
  // Image i of 40 takes percentile 2.5 i + 1.25. The sizes there are, by hand, log-linear between
  // the given ones: 61 * (108 / 61) ^ (1.25 / 25) at 26.25 %.
  EXPECT_NEAR(kilobytes[10] / (61 * std::pow(108.0 / 61, 0.05)), 1, 0.03);
  EXPECT_NEAR(kilobytes[20] / (108 * std::pow(148.0 / 108, 0.05)), 1, 0.03);
  EXPECT_NEAR(kilobytes[36] / (187 * std::pow(215.0 / 187, 0.25)), 1, 0.03);
}

TEST_F(MakeDatasetTest, GivesTheSameFilesWhateverTheThreads) {
  const std::vector<SizePercentile> sizes = {{50, 8}};
  ASSERT_TRUE(make_dataset(folder_, {.images = 6, .classes = 2, .seed = 1, .sizes = sizes}));
  ASSERT_TRUE(make_dataset(parent_ / "again",
                           {.images = 6, .classes = 2, .seed = 1, .threads = 3, .sizes = sizes}));
  ASSERT_TRUE(
      make_dataset(parent_ / "other", {.images = 6, .classes = 2, .seed = 2, .sizes = sizes}));
  const auto dataset = Dataset::open(folder_).value();
  for (const Sample& sample : dataset.samples()) {
    const fs::path name = dataset.files()[sample.unit].lexically_relative(folder_);
    EXPECT_EQ(content(dataset.files()[sample.unit]), content(parent_ / "again" / name));
    EXPECT_NE(content(dataset.files()[sample.unit]), content(parent_ / "other" / name));
    EXPECT_NEAR(static_cast<double>(fs::file_size(dataset.files()[sample.unit])), 8000, 400);
  }
}

TEST_F(MakeDatasetTest, ReportsProgressAndLeavesNothingWhenStopped) {
  std::atomic<bool> stop{false};
  int last = 0;
  MakeDatasetOptions options{.images = 50, .classes = 2, .sizes = {{50, 4}}, .stop = &stop};
  options.progress = [&](int done) {
    last = done;
    if (done == 3) stop = true;
  };
  const auto made = make_dataset(folder_, options);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kInterrupted);
  EXPECT_EQ(last, 3);
  EXPECT_EQ(entries_beside(), 0U);
}

TEST_F(MakeDatasetTest, FillsAnEmptyFolderButNoOther) {
  fs::create_directory(folder_);
  const MakeDatasetOptions options{.images = 1, .classes = 1, .sizes = {{50, 4}}};
  ASSERT_TRUE(make_dataset(folder_.string() + "/", options).has_value());
  const auto again = make_dataset(folder_, options);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(again.error().message.find(folder_.string()), std::string::npos);
  EXPECT_EQ(Dataset::open(folder_).value().samples().size(), 1U);
  EXPECT_EQ(entries_beside(), 1U);
}

TEST_F(MakeDatasetTest, RefusesOptionsOutOfRange) {
  const auto expect_refused = [&](const MakeDatasetOptions& options, std::string_view word) {
    const auto made = make_dataset(folder_, options);
    ASSERT_FALSE(made.has_value()) << word;
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(made.error().message.find(word), std::string::npos) << made.error().message;
  };
  expect_refused({.images = 0}, "images");
  expect_refused({.images = 5, .classes = 6}, "classes");
  expect_refused({.threads = 0}, "threads");
  expect_refused({.sizes = {}}, "percentile");
  expect_refused({.sizes = {{50, 10}, {40, 20}}}, "40:20");
  expect_refused({.sizes = {{50, 10}, {60, 9}}}, "60:9");
  expect_refused({.sizes = {{101, 10}}}, "101:10");
  expect_refused({.sizes = {{50, std::nan("")}}}, "50:nan");
  EXPECT_EQ(entries_beside(), 0U);
}

}  // namespace
}  // namespace gpemu::data
