// SPDX-License-Identifier: Apache-2.0
#include "gpemu/peers/shared_cache.hpp"

#include <filesystem>
#include <numeric>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/data/loader.hpp"
#include "gpemu/data/make_dataset.hpp"
#include "gpemu/data/storage_device.hpp"
#include "gpemu/pipeline/node_caches.hpp"
#include "gpemu/sim/clock.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::peers {
namespace {

using pipeline::CachePolicy;

data::SampleBytes bytes_of(std::uint32_t sample, Bytes size) {
  auto memory = std::make_unique<std::byte[]>(size);
  memory[0] = static_cast<std::byte>(sample);
  return {.memory = std::move(memory), .size = size};
}

/// The caches of some nodes, which ask each other without a network.
class SharedCacheTest : public testing::Test {
 protected:
  void make(int nodes, CachePolicy policy, Bytes capacity, bool shared) {
    sim::Rng random(1);
    for (std::uint32_t i = 0; i < 200; ++i) {
      sizes.push_back(static_cast<std::uint32_t>(500 + random.below(2000)));
    }
    for (int node = 0; node < nodes; ++node) {
      caches.push_back(std::make_unique<SharedCache>(
          SharedCache::Options{.policy = policy, .capacity = capacity, .seed = 3, .rank = node},
          sizes, [this](std::uint32_t sample) -> Result<data::SampleBytes> {
            return bytes_of(sample, sizes[sample]);
          }));
      if (!shared) continue;
      caches.back()->share([this](int peer, pipeline::FileId sample) {
        return Result<data::SampleBytes>(caches[static_cast<std::size_t>(peer)]->find(sample));
      });
    }
  }
  void read(std::size_t node, std::uint32_t sample) {
    const auto read = caches[node]->read(sample);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->size, sizes[sample]);
    EXPECT_EQ(read->memory[0], static_cast<std::byte>(sample));
  }
  void tell_all() {
    SharedCache::Holdings news;
    for (std::size_t node = 0; node < caches.size(); ++node) {
      news.emplace_back(static_cast<int>(node), caches[node]->take_news());
    }
    for (const auto& cache : caches) cache->note(news, false);
  }

  std::vector<std::uint32_t> sizes;
  std::vector<std::unique_ptr<SharedCache>> caches;
};

TEST_F(SharedCacheTest, ReadsAsTheCachesOfDescribedHostsDo) {
  for (const auto policy :
       {CachePolicy::kMinio, CachePolicy::kSmallFirst, CachePolicy::kPage, CachePolicy::kRandom}) {
    sizes.clear();
    caches.clear();
    make(3, policy, 60'000, true);
    pipeline::NodeCaches described({.policy = policy,
                                    .capacity = 60'000,
                                    .nodes = 3,
                                    .peers = pipeline::Peers::kPartitioned,
                                    .seed = 3},
                                   sizes);
    std::vector<SharedCache::Reads> expected(3);
    sim::Rng random(2);
    for (int i = 0; i < 3000; ++i) {
      const auto node = static_cast<std::size_t>(random.below(3));
      const auto sample = static_cast<std::uint32_t>(random.below(200));
      const int from = described.read(static_cast<int>(node), sample);
      if (from == pipeline::NodeCaches::kHere) {
        ++expected[node].here;
      } else if (from == pipeline::NodeCaches::kStorage) {
        ++expected[node].storage;
      } else {
        ++expected[node].peers;
      }
      read(node, sample);
      tell_all();
    }
    for (std::size_t node = 0; node < 3; ++node) {
      const SharedCache::Reads reads = caches[node]->reads();
      if (policy == CachePolicy::kMinio || policy == CachePolicy::kSmallFirst) {
        EXPECT_EQ(reads.here, expected[node].here) << node;
        EXPECT_EQ(reads.peers, expected[node].peers) << node;
      }
      EXPECT_EQ(reads.here + reads.peers + reads.storage,
                expected[node].here + expected[node].peers + expected[node].storage);
      EXPECT_LE(caches[node]->bytes(), 60'000 + 60'000 / 32);
    }
  }
}

TEST_F(SharedCacheTest, HitsOfMinioAreTheCachedShare) {
  make(1, CachePolicy::kMinio, 100'000, false);
  for (std::uint32_t sample = 0; sample < 200; ++sample) read(0, sample);
  const auto held = caches[0]->cached().size();
  for (std::uint32_t sample = 0; sample < 200; ++sample) read(0, sample);
  EXPECT_EQ(caches[0]->reads().here, held);
  EXPECT_EQ(caches[0]->reads().storage, 400 - held);
  EXPECT_GT(held, 50);
  EXPECT_LE(caches[0]->bytes(), 100'000);
}

TEST_F(SharedCacheTest, CountsWhatThePageCacheGaveUpAsGone) {
  make(1, CachePolicy::kPage, 100 * pipeline::page_bytes(1), false);
  for (std::uint32_t sample = 0; sample < 101; ++sample) read(0, sample);
  read(0, 100);
  EXPECT_EQ(caches[0]->reads().here, 1);
  read(0, 0);  // The least recently used, whose memory need not have been freed.
  EXPECT_EQ(caches[0]->reads().here, 1);
}

TEST_F(SharedCacheTest, SparesALoaderHalfOfTheReads) {
  constexpr int kImages = 12;
  const std::filesystem::path root =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_shared_cache_{}", ::getpid());
  ASSERT_TRUE(
      data::make_dataset(root, {.images = kImages, .classes = 2, .sizes = {{50, 2}, {90, 3}}}));
  const auto dataset = data::Dataset::open(root).value();
  for (std::size_t i = 0; i < kImages; ++i) {
    sizes.push_back(static_cast<std::uint32_t>(dataset.extent(i).bytes));
  }
  sim::RealClock clock;
  data::StorageDevice disk({.name = "disk", .access_s = 1e-6, .bytes_per_s = 1e12}, clock,
                           data::PageCache::kIgnored);
  SharedCache cache(
      {.policy = CachePolicy::kMinio, .capacity = dataset.total_bytes() / 2}, sizes,
      [&](std::uint32_t sample) { return data::read_sample(dataset, sample, &disk); });
  auto loader =
      data::Loader::create(dataset, {.batch = 4, .crop = 16, .storage = &disk, .source = &cache},
                           data::pageable_allocator(), clock)
          .value();
  std::vector<std::vector<float>> images;
  std::vector<Bytes> bytes_read;
  for (int again = 0; again < 3; ++again) {
    loader.start_epoch(0);
    images.emplace_back();
    bytes_read.push_back(0);
    while (const auto batch = loader.next().value()) {
      images.back().insert(images.back().end(), batch->images().begin(), batch->images().end());
      bytes_read.back() += batch->work().bytes_read;
    }
  }
  std::filesystem::remove_all(root);
  EXPECT_EQ(images[1], images[0]) << "a cached image is the same image";
  EXPECT_EQ(images[2], images[0]);
  const SharedCache::Reads reads = cache.reads();
  EXPECT_EQ(reads.here + reads.storage, 3 * kImages);
  EXPECT_GE(reads.here, kImages / 2);
  EXPECT_EQ(reads.here % 2, 0) << "as many the second time as the third";
  EXPECT_EQ(disk.totals().reads, reads.storage);
  EXPECT_EQ(bytes_read[0], dataset.total_bytes());
  EXPECT_LT(bytes_read[1], dataset.total_bytes());
  EXPECT_EQ(bytes_read[1], bytes_read[2]);
}

TEST_F(SharedCacheTest, ReadsFromStorageWhatAPeerNoLongerHolds) {
  make(2, CachePolicy::kMinio, 1 << 20, true);
  caches[0]->note({{1, {5}}, {1, {99'999}}}, false);  // Node 1 says so, and has nothing.
  read(0, 5);
  EXPECT_EQ(caches[0]->reads().storage, 1);
  EXPECT_EQ(caches[0]->cached(), std::vector<pipeline::FileId>{5});
}

TEST_F(SharedCacheTest, ForgetsWhatANodeHeldThatLeft) {
  make(2, CachePolicy::kMinio, 1 << 20, true);
  caches[0]->note({{1, {5, 6}}}, false);
  EXPECT_EQ(caches[0]->owners()[6], 1);
  caches[0]->note({{0, {7}}}, true);
  EXPECT_EQ(caches[0]->owners()[6], pipeline::kNobody);
  EXPECT_EQ(caches[0]->owners()[7], 0);
}

}  // namespace
}  // namespace gpemu::peers
