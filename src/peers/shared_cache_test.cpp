// SPDX-License-Identifier: Apache-2.0
#include "gpemu/peers/shared_cache.hpp"

#include <numeric>

#include <gtest/gtest.h>

#include "gpemu/pipeline/node_caches.hpp"
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
