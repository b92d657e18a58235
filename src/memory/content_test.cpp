// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/content.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

namespace gpemu::memory {
namespace {

TEST(ContentMapTest, KnowsNothingOfWhatWasNeverAssigned) {
  const ContentMap map;
  const ContentMap::Part part = map.part(100, 50);
  EXPECT_EQ(part.content, Content::kZeros);
  EXPECT_EQ(part.bytes, 50U);
}

TEST(ContentMapTest, AgreesWithOneContentPerByte) {
  constexpr std::uint64_t kSize = 64;
  constexpr int kRounds = 5000;
  ContentMap map;
  using Byte = std::pair<Content, kernels::WriterId>;
  std::vector<Byte> bytes(kSize, Byte{Content::kZeros, 0});
  sim::Rng rng(1);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t start = rng.below(kSize);
    const Bytes count = 1 + rng.below(kSize - start);
    const auto content = static_cast<Content>(rng.below(5));
    const auto writer = static_cast<kernels::WriterId>(is_known(content) ? 0 : rng.below(2));
    const std::uint64_t changes = map.changes();
    const std::vector<Byte> before = bytes;
    map.assign(start, count, content, writer);
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(start), count, Byte{content, writer});
    ASSERT_TRUE(bytes == before || map.changes() != changes) << "round " << round;
    for (std::uint64_t at = 0; at < kSize;) {
      const ContentMap::Part part = map.part(at, kSize - at);
      ASSERT_GT(part.bytes, 0U);
      for (const std::uint64_t end = at + part.bytes; at < end; ++at) {
        ASSERT_EQ((Byte{part.content, part.writer}), bytes[at])
            << "byte " << at << " in round " << round;
      }
    }
    const Bytes length = 1 + rng.below(4);
    const auto a = bytes.begin() + static_cast<std::ptrdiff_t>(rng.below(kSize - length + 1));
    const auto b = bytes.begin() + static_cast<std::ptrdiff_t>(rng.below(kSize - length + 1));
    const auto is_first = [a](const Byte& other) { return other == *a && !in_pages(a->first); };
    const auto size = static_cast<std::ptrdiff_t>(length);
    ASSERT_EQ(map.are_alike(a - bytes.begin(), b - bytes.begin(), length),
              std::all_of(a, a + size, is_first) && std::all_of(b, b + size, is_first))
        << "round " << round;
    const auto known = [](const Byte& byte) { return is_known(byte.first); };
    ASSERT_EQ(map.all_known(a - bytes.begin(), length), std::all_of(a, a + size, known))
        << "round " << round;
  }
}

}  // namespace
}  // namespace gpemu::memory
