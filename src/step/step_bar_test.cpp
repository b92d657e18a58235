// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/step_bar.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace gpemu::step {
namespace {

TEST(BarOfMixed, IsNarrowerByItsLogarithm) {
  EXPECT_EQ(bar_of_mixed(0), 0);
  EXPECT_NEAR(std::log(1 + bar_of_mixed(0.2)) / std::log(1.2), kMixedSteps, 1e-12);
}

TEST(BarOfLonger, IsItsOwnIfTheOtherIsMuchShorter) {
  EXPECT_NEAR(bar_of_longer({.time = 10, .bar = 0.2}, {.time = 1, .bar = 0.6}), 0.2, 1e-6);
  EXPECT_NEAR(bar_of_longer({.time = 1, .bar = 0.2}, {.time = 10, .bar = 0.6}), 0.6, 1e-6);
  EXPECT_NEAR(bar_of_longer({.time = 3, .bar = 0.2}, {.time = 0, .bar = 0.6}), 0.2, 1e-6);
}

TEST(BarOfLonger, GrowsAsTheOtherComesNear) {
  double before = 0.2;
  for (const double host : {0.6, 0.7, 0.8, 0.9, 1.0}) {
    const double bar = bar_of_longer({.time = 1, .bar = 0.2}, {.time = host, .bar = 0.6});
    EXPECT_GT(bar, before) << host;
    before = bar;
  }
  EXPECT_LT(before, 0.6);
}

TEST(BarOfLonger, LiesBetweenBoth) {
  for (const double host : {0.5, 0.8, 0.95, 1.0, 1.1, 2.0}) {
    EXPECT_NEAR(bar_of_longer({.time = 1, .bar = 0.45}, {.time = host, .bar = 0.45}), 0.45, 1e-9);
    const double bar = bar_of_longer({.time = 1, .bar = 0.6}, {.time = host, .bar = 0.4});
    EXPECT_GE(bar, 0.4) << host;
    EXPECT_LE(bar, 0.6) << host;
  }
}

TEST(BarOfLonger, ContainsNineOfTenDrawnTimes) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  const double quantile = 1.645;
  for (const double host : {0.5, 0.8, 1.0, 1.2, 2.0}) {
    const BarredTime one{.time = 1, .bar = 0.25}, other{.time = host, .bar = 0.5};
    const double longer = std::max(one.time, other.time);
    const double bar = bar_of_longer(one, other);
    constexpr int kDraws = 100000;
    int inside = 0;
    for (int i = 0; i < kDraws; ++i) {
      const auto draw = [&](const BarredTime& of) {
        return of.time * std::exp(normal(random) * std::log1p(of.bar) / quantile);
      };
      const double drawn = std::max(draw(one), draw(other));
      inside += drawn <= longer * (1 + bar) && drawn >= longer / (1 + bar) ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(inside) / kDraws, 0.9, 0.01) << host;
  }
}

TEST(BarOfLonger, OfExactTimesIsNone) {
  EXPECT_NEAR(bar_of_longer({.time = 2, .bar = 0}, {.time = 1, .bar = 0}), 0, 1e-9);
  EXPECT_EQ(bar_of_longer({.time = 0, .bar = 0.1}, {.time = 0, .bar = 0.3}), 0.3);
}

}  // namespace
}  // namespace gpemu::step
