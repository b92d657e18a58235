// SPDX-License-Identifier: Apache-2.0
#include "lateness.hpp"

#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

TEST(Lateness, OfNothingIsNothing) {
  const Lateness lateness;
  EXPECT_EQ(lateness.total(), 0U);
  EXPECT_EQ(lateness.median(), Duration());
  EXPECT_EQ(lateness.latest(), Duration());
}

TEST(Lateness, CountsWhatIsEarlyAsInTime) {
  Lateness lateness;
  lateness.add(-5ms);
  EXPECT_EQ(lateness.total(), 1U);
  EXPECT_EQ(lateness.median(), Duration());
  EXPECT_EQ(lateness.latest(), Duration());
}

TEST(Lateness, TheMedianIsRoundedUpToAMicrosecond) {
  Lateness lateness;
  for (const Duration late : {Duration(10us), Duration(2'500), Duration(0)}) lateness.add(late);
  EXPECT_EQ(lateness.median(), 3us);
  EXPECT_EQ(lateness.latest(), 10us);
}

TEST(Lateness, TheMedianIsAtMostAMillisecond) {
  Lateness lateness;
  lateness.add(1h);
  EXPECT_EQ(lateness.median(), 1ms);
  EXPECT_EQ(lateness.latest(), 1h);
}

}  // namespace
}  // namespace gpemu::device
