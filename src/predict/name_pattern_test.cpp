// SPDX-License-Identifier: Apache-2.0
#include "gpemu/predict/name_pattern.hpp"

#include <gtest/gtest.h>

namespace gpemu::predict {
namespace {

TEST(NamePattern, IsSearchedForAnywhereInAName) {
  const auto pattern = NamePattern::read("gemm_[0-9]+x");
  ASSERT_TRUE(pattern);
  EXPECT_TRUE(pattern->is_in("ampere_gemm_128x64"));
  EXPECT_FALSE(pattern->is_in("ampere_gemm_x64"));
  EXPECT_FALSE(pattern->is_in(""));
}

TEST(NamePattern, CopiesOutliveTheOriginal) {
  auto pattern = NamePattern::read("^m$");
  ASSERT_TRUE(pattern);
  const NamePattern copy = *pattern;
  pattern = NamePattern::read("x");
  EXPECT_TRUE(copy.is_in("m"));
  EXPECT_FALSE(copy.is_in("x"));
}

TEST(NamePattern, FaultsOfTheExpressionAreNamed) {
  const auto pattern = NamePattern::read("a(b");
  ASSERT_FALSE(pattern);
  EXPECT_EQ(pattern.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(pattern.error().message.empty());
}

}  // namespace
}  // namespace gpemu::predict
