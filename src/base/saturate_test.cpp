// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/saturate.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace gpemu {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(SaturateTest, SumsEndAtTheLimitsOfTheirRange) {
  EXPECT_EQ(saturating_add(40, 2), 42);
  EXPECT_EQ(saturating_add(kMax, 1), kMax);
  EXPECT_EQ(saturating_add(kMin, -1), kMin);
  EXPECT_EQ(saturating_add(kMin, kMax), -1);
  EXPECT_EQ(saturating_add(TimePoint(Duration(1)), Duration::max()), TimePoint::max());
}

TEST(SaturateTest, DifferencesEndAtTheLimitsOfTheirRange) {
  EXPECT_EQ(saturating_subtract(40, 2), 38);
  EXPECT_EQ(saturating_subtract(kMin, 1), kMin);
  EXPECT_EQ(saturating_subtract(0, kMin), kMax);
  EXPECT_EQ(saturating_subtract(-1, kMin), kMax);
}

}  // namespace
}  // namespace gpemu
