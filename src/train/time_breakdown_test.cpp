// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/time_breakdown.hpp"

#include <gtest/gtest.h>

namespace gpemu::train {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

device::Interval span(Duration start, Duration end) {
  return {.start = TimePoint(start), .end = TimePoint(end)};
}

constexpr device::Interval kNoWait{};

TEST(StallAccount, GivesAMomentToComputeBeforeCopyBeforeWaiting) {
  StallAccount account(TimePoint(0ms));
  account.add_step({.forward = span(0ms, 4ms), .backward = span(4ms, 10ms)}, kNoWait, {});
  // The host waits from 2 to 13, copies from 13 to 16 and computes from 17 to 20.
  const TimeBreakdown second = account.add_step(
      {.copy = span(13ms, 16ms), .forward = span(17ms, 18ms), .backward = span(18ms, 20ms)},
      span(2ms, 13ms), {.fetch = 1ms, .prep = 2ms});
  EXPECT_EQ(second,
            (TimeBreakdown{
                .compute = 3ms, .copy = 3ms, .fetch_wait = 1ms, .prep_wait = 2ms, .other = 1ms}));
  EXPECT_EQ(account.time().total(), 20ms);
}

TEST(StallAccount, CountsOfAnOverlappingCopyOnlyWhatTheGpuIdles) {
  StallAccount account(TimePoint(0ms));
  account.add_step({.forward = span(0ms, 4ms), .backward = span(4ms, 10ms)}, kNoWait, {});
  const TimeBreakdown second = account.add_step(
      {.copy = span(6ms, 12ms), .forward = span(12ms, 16ms), .backward = span(16ms, 22ms)}, kNoWait,
      {});
  EXPECT_EQ(second, (TimeBreakdown{.compute = 10ms, .copy = 2ms}));
}

TEST(StallAccount, DividesAWaitWithoutLosingANanosecond) {
  StallAccount account(TimePoint(0ns));
  const TimeBreakdown time =
      account.add_step({.forward = span(10ns, 10ns), .backward = span(10ns, 10ns)}, span(0ns, 10ns),
                       {.fetch = 1ns, .prep = 2ns});
  EXPECT_EQ(time.fetch_wait, 3ns);
  EXPECT_EQ(time.prep_wait, 7ns);
}

TEST(StallAccount, BlamesNobodyForAWaitWithoutWork) {
  StallAccount account(TimePoint(0ms));
  const TimeBreakdown time =
      account.add_step({.forward = span(5ms, 6ms), .backward = span(6ms, 7ms)}, span(0ms, 5ms), {});
  EXPECT_EQ(time, (TimeBreakdown{.compute = 2ms, .other = 5ms}));
}

TEST(StallAccount, LeavesIdleTimeInsideAStepAndAtTheEndToOther) {
  StallAccount account(TimePoint(0ms));
  account.add_step(
      {.forward = span(0ms, 2ms), .backward = span(3ms, 5ms), .all_reduce = span(9ms, 10ms)},
      kNoWait, {});
  account.finish(TimePoint(12ms));
  EXPECT_EQ(account.time(), (TimeBreakdown{.compute = 4ms, .all_reduce = 1ms, .other = 7ms}));
  account.finish(TimePoint(11ms));
  EXPECT_EQ(account.time().total(), 12ms) << "time is never taken back";
}

}  // namespace
}  // namespace gpemu::train
