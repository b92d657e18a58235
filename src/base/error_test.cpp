// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/error.hpp"

#include <gtest/gtest.h>

namespace gpemu {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return fail(ErrorCode::kInvalidArgument, "{} is odd", value);
  return value / 2;
}

Result<int> quarter(int value) {
  GPEMU_ASSIGN(const int once, half(value));
  GPEMU_ASSIGN(const int twice, half(once));
  return twice;
}

TEST(Result, PropagatesTheFirstError) {
  EXPECT_EQ(quarter(12).value(), 3);
  ASSERT_FALSE(quarter(6).has_value());
  EXPECT_EQ(quarter(6).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
}

TEST(ErrorCode, HasDistinctExitCodes) {
  EXPECT_EQ(exit_code(ErrorCode::kInvalidArgument), 2);
  EXPECT_EQ(exit_code(ErrorCode::kOutOfMemory), 4);
  EXPECT_EQ(exit_code(ErrorCode::kInterrupted), 130);
}

}  // namespace
}  // namespace gpemu
