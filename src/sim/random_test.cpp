// SPDX-License-Identifier: Apache-2.0
#include "gpemu/sim/random.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::sim {
namespace {

TEST(Rng, RepeatsForTheSameSeedAndStream) {
  Rng a(7, 1);
  Rng b(7, 1);
  Rng other_stream(7, 2);
  const std::uint64_t first = a.bits();
  EXPECT_EQ(first, b.bits());
  EXPECT_NE(first, other_stream.bits());
}

TEST(Rng, BelowIsUnbiasedOverASmallRange) {
  Rng rng(1);
  std::array<int, 6> counts{};
  for (int i = 0; i < 60'000; ++i) ++counts.at(rng.below(6));
  // Six standard deviations of a binomial with n = 60000, p = 1/6.
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 548);
}

TEST(Rng, ShuffleIsAPermutation) {
  std::vector<int> values(100);
  std::iota(values.begin(), values.end(), 0);
  std::vector<int> shuffled = values;
  Rng(3).shuffle(std::span<int>(shuffled));
  EXPECT_NE(shuffled, values);
  std::ranges::sort(shuffled);
  EXPECT_EQ(shuffled, values);
}

}  // namespace
}  // namespace gpemu::sim
