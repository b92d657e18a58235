// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/coverage.hpp"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace gpemu::calibrate {
namespace {

TEST(Coverage, OneOfTenMayBeLarger) {
  std::vector<double> misses(19);
  std::iota(misses.rbegin(), misses.rend(), 1.0);
  EXPECT_EQ(bar_of(misses), 18);  // Of these and a larger one, 18 of 20.
  misses.resize(9);
  EXPECT_EQ(bar_of(misses), 19);
  misses.resize(8);  // Any bar would hold less than nine of these and a larger one.
  EXPECT_TRUE(std::isinf(bar_of(misses)));
}

}  // namespace
}  // namespace gpemu::calibrate
