// SPDX-License-Identifier: Apache-2.0
#include "busy_time.hpp"

#include <cstdint>

#include <gtest/gtest.h>

namespace gpemu::process {
namespace {

TEST(BusyTime, CountsWorkThatFollows) {
  BusyTime busy;
  busy.add(100, 150);
  busy.add(150, 200);
  busy.add(300, 301);
  EXPECT_EQ(busy.total(), 101);
}

TEST(BusyTime, CountsWhatOverlapsOnce) {
  BusyTime busy;
  busy.add(100, 200);
  busy.add(150, 250);
  busy.add(120, 130);
  EXPECT_EQ(busy.total(), 150);
}

TEST(BusyTime, FillsGapsInAnyOrder) {
  BusyTime busy;
  busy.add(100, 200);
  busy.add(300, 400);
  busy.add(500, 600);
  busy.add(50, 80);
  EXPECT_EQ(busy.total(), 330);
  busy.add(190, 510);  // Closes two gaps.
  EXPECT_EQ(busy.total(), 530);
  busy.add(0, 1000);
  EXPECT_EQ(busy.total(), 1000);
}

TEST(BusyTime, IgnoresWorkWithoutDuration) {
  BusyTime busy;
  busy.add(100, 100);
  EXPECT_EQ(busy.total(), 0);
}

TEST(BusyTime, CountsNothingTwiceOfWhatLiesFarBack) {
  BusyTime busy;
  for (std::int64_t i = 0; i < 1000; ++i) busy.add(10 * i, 10 * i + 5);
  EXPECT_EQ(busy.total(), 5000);
  busy.add(0, 20);  // Long since counted, up to a gap that is lost.
  EXPECT_EQ(busy.total(), 5000);
}

}  // namespace
}  // namespace gpemu::process
