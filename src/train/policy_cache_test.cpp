// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/policy_cache.hpp"

#include <algorithm>
#include <filesystem>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/data/make_dataset.hpp"
#include "gpemu/data/storage_device.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::train {
namespace {

constexpr int kCachedImages = 12;

class PolicyCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(data::make_dataset(
        root_, {.images = kCachedImages, .classes = 2, .sizes = {{50, 2}, {90, 3}}}));
    dataset_ = data::Dataset::open(root_).value();
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_policy_cache_{}", ::getpid());
  std::optional<data::Dataset> dataset_;
};

TEST_F(PolicyCacheTest, HoldsWhatThePolicyHoldsAndForgetsTheRest) {
  PolicyCache cache(*dataset_, [](std::span<const std::uint32_t> sizes) {
    const Bytes two = 2 * pipeline::page_bytes(std::ranges::max(sizes));
    return make_cache(pipeline::CachePolicy::kPage, two, sizes);
  });
  const std::vector<std::byte> bytes(1000, std::byte{7});
  for (std::uint32_t sample = 0; sample < kCachedImages; ++sample) {
    EXPECT_EQ(cache.find(sample), nullptr);
    cache.offer(sample, bytes);
  }
  const auto last = cache.find(kCachedImages - 1);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(*last, bytes);
  EXPECT_EQ(cache.find(0), nullptr) << "the page cache gave it up";
  EXPECT_EQ(cache.reads(), kCachedImages + 2);
  EXPECT_EQ(cache.hits(), 1);
}

TEST_F(PolicyCacheTest, SparesTheLoaderHalfOfTheReads) {
  const Bytes all = dataset_->total_bytes();
  PolicyCache cache(*dataset_, [all](std::span<const std::uint32_t> sizes) {
    return make_cache(pipeline::CachePolicy::kMinio, all / 2, sizes);
  });
  sim::RealClock clock;
  data::StorageDevice disk({.name = "disk", .access_s = 1e-6, .bytes_per_s = 1e12}, clock,
                           data::PageCache::kIgnored);
  auto loader =
      data::Loader::create(*dataset_, {.batch = 4, .crop = 16, .cache = &cache, .storage = &disk},
                           data::pageable_allocator(), clock)
          .value();
  std::vector<std::vector<float>> images;
  for (const std::uint64_t epoch : {0, 0, 0}) {
    loader.start_epoch(epoch);
    std::vector<float> pixels;
    while (const auto batch = loader.next().value()) {
      pixels.insert(pixels.end(), batch->images().begin(), batch->images().end());
    }
    images.push_back(std::move(pixels));
  }
  EXPECT_EQ(images[1], images[0]) << "a cached image is the same image";
  EXPECT_EQ(images[2], images[0]);
  EXPECT_EQ(cache.reads(), 3 * kCachedImages);
  EXPECT_GE(cache.hits(), kCachedImages / 2);
  EXPECT_EQ(cache.hits() % 2, 0) << "as many in the second epoch as in the third";
  EXPECT_EQ(disk.totals().reads, 3 * kCachedImages - cache.hits());
}

TEST_F(PolicyCacheTest, NeedsSamplesThatAreReadOneAtATime) {
  PolicyCache cache(*dataset_, [](std::span<const std::uint32_t> sizes) {
    return make_cache(pipeline::CachePolicy::kMinio, 1, sizes);
  });
  sim::RealClock clock;
  const auto loader = data::Loader::create(
      *dataset_, {.batch = 4, .crop = 16, .order = data::ReadOrder::kSequential, .cache = &cache},
      data::pageable_allocator(), clock);
  ASSERT_FALSE(loader);
  EXPECT_EQ(loader.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpemu::train
