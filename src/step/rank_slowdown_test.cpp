// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/rank_slowdown.hpp"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

namespace gpemu::step {
namespace {

/// A range of one standard deviation.
constexpr double kDeviation = 8 * 0.6745;

TEST(SlowestOf, IsTheMeanOfTheLargestOfNormalValues) {
  EXPECT_EQ(slowest_of(1), 0);
  // The closed forms for two and three values, and a table's figure for eight.
  EXPECT_NEAR(slowest_of(2, kDeviation), 1 / std::sqrt(std::numbers::pi), 1e-4);
  EXPECT_NEAR(slowest_of(3, kDeviation), 1.5 / std::sqrt(std::numbers::pi), 1e-4);
  EXPECT_NEAR(slowest_of(8, kDeviation), 1.4236, 1e-4);
}

TEST(SlowestOf, GrowsSlowlyWithTheRanks) {
  EXPECT_NEAR(slowest_of(8), 0.0211, 1e-4);
  EXPECT_GT(slowest_of(1024), slowest_of(8));
  EXPECT_LT(slowest_of(1024), 3 * slowest_of(8));
  EXPECT_GT(slowest_of(8, kMostGpuVariation), slowest_of(8));
}

}  // namespace
}  // namespace gpemu::step
