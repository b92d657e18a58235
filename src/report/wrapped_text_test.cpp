// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/wrapped_text.hpp"

#include <gtest/gtest.h>

namespace gpemu::report {
namespace {

TEST(WrappedText, BreaksAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 0, 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 2, 7), "one\n  two\n  three");
  EXPECT_EQ(wrapped("extraordinary word", 0, 4), "extraordinary\nword");
  EXPECT_EQ(wrapped("", 4, 80), "");
}

}  // namespace
}  // namespace gpemu::report
