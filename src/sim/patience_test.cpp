// SPDX-License-Identifier: Apache-2.0
#include "gpemu/sim/patience.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace gpemu::sim {
namespace {

using namespace std::chrono_literals;
using Parties = std::vector<int>;

constexpr TimePoint kStart = TimePoint{} + 100s;

TEST(PatienceTest, NamesWhoWasAwaitedForTheWholePatience) {
  Awaited awaited(10s);
  EXPECT_EQ(awaited.overdue(1, {1, 2}, kStart), Parties{});
  EXPECT_EQ(awaited.overdue(1, {1, 2}, kStart + 10s - 1ns), Parties{});
  EXPECT_EQ(awaited.overdue(1, {1, 2, 3}, kStart + 10s), (Parties{1, 2}));
  EXPECT_EQ(awaited.overdue(1, {3}, kStart + 20s - 1ns), Parties{});
  EXPECT_EQ(awaited.overdue(1, {3}, kStart + 20s), Parties{3});
}

TEST(PatienceTest, GivesTheWholeTimeAgainAfterProgress) {
  Awaited awaited(10s);
  EXPECT_EQ(awaited.overdue(1, {1, 2}, kStart), Parties{});
  EXPECT_EQ(awaited.overdue(1, {2}, kStart + 9s), Parties{});  // 1 has come.
  EXPECT_EQ(awaited.overdue(2, {1, 2}, kStart + 9s), Parties{});
  EXPECT_EQ(awaited.overdue(2, {1, 2}, kStart + 19s - 1ns), Parties{});
  EXPECT_EQ(awaited.overdue(2, {1, 2}, kStart + 19s), (Parties{1, 2}));
}

TEST(PatienceTest, AWaitEndsAtItsTimeOrWhenItIsStopped) {
  VirtualClock clock;
  std::atomic<bool> stop = false;
  const Wait wait{.clock = clock, .until = clock.now() + 120ms, .stop = stop};
  EXPECT_EQ(wait.step(), 50ms);
  clock.wait_until(clock.now() + 100ms);
  EXPECT_EQ(wait.step(), 20ms);
  clock.wait_until(wait.until - 1ns);
  EXPECT_EQ(wait.step(), 1ms) << "never 0 before the end, which would spin";
  EXPECT_FALSE(wait.is_over());
  clock.wait_until(wait.until);
  EXPECT_TRUE(wait.is_over());
  EXPECT_FALSE(wait.is_stopped());
  const Wait longer{.clock = clock, .until = clock.now() + 1h, .stop = stop};
  EXPECT_FALSE(longer.is_over());
  stop = true;
  EXPECT_TRUE(longer.is_over());
}

}  // namespace
}  // namespace gpemu::sim
