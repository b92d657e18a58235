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
  EXPECT_EQ(saturating_add(at_ns(1), Duration::max()), TimePoint::max());
}

TEST(SaturateTest, DifferencesEndAtTheLimitsOfTheirRange) {
  EXPECT_EQ(saturating_subtract(40, 2), 38);
  EXPECT_EQ(saturating_subtract(kMin, 1), kMin);
  EXPECT_EQ(saturating_subtract(0, kMin), kMax);
  EXPECT_EQ(saturating_subtract(-1, kMin), kMax);
}

TEST(Units, NumbersBecomeTheNearestDuration) {
  EXPECT_EQ(from_nanoseconds(2.5), Duration(3));
  EXPECT_EQ(from_nanoseconds(-2.5), Duration(-3));
  EXPECT_EQ(from_nanoseconds(0.49999999999999994), Duration(0));
  EXPECT_EQ(from_nanoseconds(4503599627370497.0), Duration(4503599627370497));
  EXPECT_EQ(from_seconds(1.5), Duration(1'500'000'000));
  EXPECT_EQ(from_milliseconds(-1.5), Duration(-1'500'000));
}

TEST(Units, NumbersBeyondAllDurationsBecomeTheLongest) {
  EXPECT_EQ(from_seconds(1e300), Duration::max());
  EXPECT_EQ(from_seconds(-std::numeric_limits<double>::infinity()), Duration::min());
  EXPECT_EQ(from_seconds(std::numeric_limits<double>::quiet_NaN()), Duration(0));
}

}  // namespace
}  // namespace gpemu
