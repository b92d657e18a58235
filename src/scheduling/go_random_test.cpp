// SPDX-License-Identifier: Apache-2.0
#include "go_random.hpp"

#include <array>
#include <cstdint>

#include <gtest/gtest.h>

namespace gpemu::scheduling {
namespace {

/// What Go 1.26's rand.New(rand.NewSource(42)) gave.
TEST(GoRandomTest, DrawsWhatGoDraws) {
  GoRandom random(42);
  EXPECT_EQ(random.bits(), 12663951391086054483U);
  EXPECT_EQ(random.bits(), 9832119173398632219U);
  EXPECT_EQ(random.bits() & ~std::uint64_t{0} >> 1U, 5571782338101878760U);
  EXPECT_EQ(random.below(7), 1U);
  EXPECT_EQ(random.below(8), 7U);
  EXPECT_EQ(random.below(1213), 932U);
  random.skip_float();
  std::array<std::uint32_t, 6> places{};
  random.permute(places);
  EXPECT_EQ(places, (std::array<std::uint32_t, 6>{1, 3, 4, 5, 0, 2}));
  std::array<int, 8> numbers{0, 1, 2, 3, 4, 5, 6, 7};
  random.shuffle(std::span<int>(numbers));
  EXPECT_EQ(numbers, (std::array{7, 1, 6, 5, 3, 2, 4, 0}));
}

TEST(GoRandomTest, TakesAnySeed) {
  EXPECT_EQ(GoRandom(0).bits(), 8717895732742165505U);
  EXPECT_EQ(GoRandom(std::int64_t{1} << 40U).bits(), 14693609398577170170U);
}

}  // namespace
}  // namespace gpemu::scheduling
