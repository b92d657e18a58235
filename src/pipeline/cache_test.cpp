// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/cache.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/data/dataset.hpp"
#include "gpemu/pipeline/node_caches.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::pipeline {
namespace {

std::vector<std::uint32_t> random_sizes(std::size_t files, std::uint64_t seed) {
  sim::Rng random(seed);
  std::vector<std::uint32_t> sizes(files);
  for (std::uint32_t& size : sizes) size = 1 + static_cast<std::uint32_t>(random.below(30'000));
  return sizes;
}

/// Policies as plainly as possible: a vector of files, the first to leave in front.
class PlainCache {
 public:
  PlainCache(CachePolicy policy, Bytes capacity, const std::vector<std::uint32_t>& sizes)
      : policy_(policy), capacity_(capacity), sizes_(sizes) {}

  bool read(FileId file) {
    const auto found = std::ranges::find(files_, file);
    if (policy_ == CachePolicy::kPage) {
      if (found != files_.end()) {
        std::rotate(found, found + 1, files_.end());
        return true;
      }
      files_.push_back(file);
      while (bytes() > capacity_) files_.erase(files_.begin());
      return false;
    }
    if (found != files_.end()) return true;
    if (policy_ == CachePolicy::kSmallFirst && !all_up_to_fit(sizes_[file])) return false;
    files_.push_back(file);
    if (bytes() > capacity_) files_.pop_back();
    return false;
  }

 private:
  [[nodiscard]] Bytes bytes() const {
    Bytes sum = 0;
    for (const FileId file : files_) {
      sum += policy_ == CachePolicy::kPage ? (sizes_[file] + 4095) / 4096 * 4096 : sizes_[file];
    }
    return sum;
  }
  [[nodiscard]] bool all_up_to_fit(std::uint32_t size) const {
    Bytes sum = 0;
    for (const std::uint32_t other : sizes_) sum += other <= size ? other : 0;
    return sum <= capacity_;
  }

  CachePolicy policy_;
  Bytes capacity_;
  const std::vector<std::uint32_t>& sizes_;
  std::vector<FileId> files_;
};

class EachPlainPolicy : public testing::TestWithParam<CachePolicy> {};

TEST_P(EachPlainPolicy, AgreesWithAPlainOneOnAMillionReads) {
#if defined(GPEMU_SANITIZE_ADDRESS)
  constexpr int kReads = 100'000;  // which take ten times as long there
#else
  constexpr int kReads = 1'000'000;
#endif
  constexpr std::size_t kFiles = 24;
  const std::vector<std::uint32_t> sizes = random_sizes(kFiles, 1);
  constexpr Bytes kCapacity = 160'000;  // About half of them.
  PlainCache plain(GetParam(), kCapacity, sizes);
  const auto cache = make_cache(GetParam(), kCapacity, sizes);
  sim::Rng random(2);
  int hits = 0;
  for (int i = 0; i < kReads; ++i) {
    const auto file = static_cast<FileId>(std::min(random.below(kFiles), random.below(kFiles)));
    const bool hit = cache->read(file);
    ASSERT_EQ(hit, plain.read(file)) << i;
    ASSERT_LE(cache->used(), kCapacity);
    hits += hit ? 1 : 0;
  }
  EXPECT_GT(hits, kReads / 10 * 3);
  EXPECT_LT(hits, kReads / 10 * 9);
}

INSTANTIATE_TEST_SUITE_P(Policies, EachPlainPolicy,
                         testing::Values(CachePolicy::kPage, CachePolicy::kMinio,
                                         CachePolicy::kSmallFirst),
                         [](const auto& tested) {
                           std::string name(
                               kCachePolicyNames[static_cast<std::size_t>(tested.param)]);
                           std::erase(name, '-');
                           return name;
                         });

TEST(RandomCache, HoldsWhatFitsAndAnswersWhatItHolds) {
  const std::vector<std::uint32_t> sizes = random_sizes(60, 1);
  const auto cache = make_cache(CachePolicy::kRandom, 400'000, sizes, 3);
  sim::Rng random(2);
  int hits = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const auto file = static_cast<FileId>(random.below(sizes.size()));
    const bool held = cache->holds(file);
    ASSERT_EQ(cache->read(file), held);
    ASSERT_TRUE(cache->holds(file));
    ASSERT_LE(cache->used(), 400'000U);
    hits += held ? 1 : 0;
  }
  Bytes all = 0;
  for (const std::uint32_t size : sizes) all += page_bytes(size);
  // Uniform reads find what is there: about the share of the bytes, as any file may leave.
  EXPECT_NEAR(hits / 1e6, 400'000.0 / static_cast<double>(all), 0.03);
}

/// Returns the files that a second epoch finds in a cache that the first one has filled.
std::size_t hits_of_second_epoch(Cache& cache, std::size_t files) {
  for (const FileId file : data::shuffled_order(files, 1, 0)) (void)cache.read(file);
  std::size_t hits = 0;
  for (const FileId file : data::shuffled_order(files, 1, 1)) hits += cache.read(file) ? 1 : 0;
  return hits;
}

TEST(MinioCache, FindsExactlyTheCachedShareInEachEpoch) {
  const std::vector<std::uint32_t> sizes(10'000, 100'000);
  for (const std::size_t cached : {0UL, 1UL, 2'500UL, 4'000UL, 9'999UL, 10'000UL}) {
    const auto cache = make_cache(CachePolicy::kMinio, cached * 100'000, sizes);
    EXPECT_EQ(hits_of_second_epoch(*cache, sizes.size()), cached);
    EXPECT_EQ(cache->used(), cached * 100'000);
  }
}

TEST(PageCache, FindsWhatItsFormulaSays) {
  // A file is found if fewer distinct files than fit were read since: 1 - u + u ln u of them, with
  // the share u that does not fit, if each epoch reads all files in random order.
  const std::vector<std::uint32_t> sizes(50'000, 4096);
  for (const double share : {0.2, 0.434, 0.65, 0.81}) {
    const auto cache =
        make_cache(CachePolicy::kPage, static_cast<Bytes>(share * 50'000) * 4096, sizes);
    const double u = 1 - share;
    EXPECT_NEAR(static_cast<double>(hits_of_second_epoch(*cache, sizes.size())) / 50'000,
                1 - u + u * std::log(u), 0.005);
  }
}

TEST(LargestCachedSize, IsTheLargestOfWhichAllSmallerFit) {
  const std::vector<std::uint32_t> sizes = {5, 1, 3, 3, 9};
  EXPECT_EQ(largest_cached_size(sizes, 0), 0U);
  EXPECT_EQ(largest_cached_size(sizes, 1), 1U);
  EXPECT_EQ(largest_cached_size(sizes, 6), 1U);  // Only one of the two of 3 bytes.
  EXPECT_EQ(largest_cached_size(sizes, 7), 3U);
  EXPECT_EQ(largest_cached_size(sizes, 100), 9U);
}

TEST(NodeCaches, APeerThatHoldsAFileSendsIt) {
  const std::vector<std::uint32_t> sizes(10, 4096);
  NodeCaches caches({.policy = CachePolicy::kMinio,
                     .capacity = 2 * 4096,
                     .nodes = 2,
                     .peers = Peers::kPartitioned},
                    sizes);
  EXPECT_EQ(caches.read(0, 3), NodeCaches::kStorage);
  EXPECT_EQ(caches.read(0, 3), NodeCaches::kHere);
  EXPECT_EQ(caches.read(1, 3), 0);
  EXPECT_EQ(caches.owners()[3], 0);
  EXPECT_EQ(caches.read(0, 4), NodeCaches::kStorage);
  EXPECT_EQ(caches.read(0, 5), NodeCaches::kStorage);  // The cache is full.
  EXPECT_EQ(caches.owners()[5], kNobody);
  EXPECT_EQ(caches.read(1, 5), NodeCaches::kStorage);
  EXPECT_EQ(caches.read(0, 5), 1);
}

TEST(NodeCaches, AFileThatAPeerGaveUpComesFromStorage) {
  const std::vector<std::uint32_t> sizes(10, 4096);
  NodeCaches caches(
      {.policy = CachePolicy::kPage, .capacity = 4096, .nodes = 2, .peers = Peers::kPartitioned},
      sizes);
  EXPECT_EQ(caches.read(0, 1), NodeCaches::kStorage);
  EXPECT_EQ(caches.read(0, 2), NodeCaches::kStorage);
  EXPECT_EQ(caches.read(1, 1), NodeCaches::kStorage);
  EXPECT_EQ(caches.read(1, 2), 0);
}

}  // namespace
}  // namespace gpemu::pipeline
