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
  account.add_step({.turns = {span(0ms, 4ms), span(4ms, 10ms)}}, {}, kNoWait, {});
  // The host waits from 2 to 13, copies from 13 to 16 and computes from 17 to 20.
  const TimeBreakdown second =
      account.add_step({.copy = span(13ms, 16ms), .turns = {span(17ms, 18ms), span(18ms, 20ms)}},
                       {}, span(2ms, 13ms), {.fetch = 1ms, .prep = 2ms});
  EXPECT_EQ(second,
            (TimeBreakdown{
                .compute = 3ms, .copy = 3ms, .fetch_wait = 1ms, .prep_wait = 2ms, .other = 1ms}));
  EXPECT_EQ(account.time().total(), 20ms);
}

TEST(StallAccount, CountsOfAnOverlappingCopyOnlyWhatTheGpuIdles) {
  StallAccount account(TimePoint(0ms));
  account.add_step({.turns = {span(0ms, 4ms), span(4ms, 10ms)}}, {}, kNoWait, {});
  const TimeBreakdown second = account.add_step(
      {.copy = span(6ms, 12ms), .turns = {span(12ms, 16ms), span(16ms, 22ms)}}, {}, kNoWait, {});
  EXPECT_EQ(second, (TimeBreakdown{.compute = 10ms, .copy = 2ms}));
}

TEST(StallAccount, DividesAWaitWithoutLosingANanosecond) {
  StallAccount account(TimePoint(0ns));
  const TimeBreakdown time = account.add_step({.turns = {span(10ns, 10ns), span(10ns, 10ns)}}, {},
                                              span(0ns, 10ns), {.fetch = 1ns, .prep = 2ns});
  EXPECT_EQ(time.fetch_wait, 3ns);
  EXPECT_EQ(time.prep_wait, 7ns);
}

TEST(StallAccount, BlamesNobodyForAWaitWithoutWork) {
  StallAccount account(TimePoint(0ms));
  const TimeBreakdown time =
      account.add_step({.turns = {span(5ms, 6ms), span(6ms, 7ms)}}, {}, span(0ms, 5ms), {});
  EXPECT_EQ(time, (TimeBreakdown{.compute = 2ms, .other = 5ms}));
}

TEST(StallAccount, LeavesIdleTimeInsideAStepAndAtTheEndToOther) {
  StallAccount account(TimePoint(0ms));
  const std::vector exchanges = {span(9ms, 10ms)};
  account.add_step({.turns = {span(0ms, 2ms), span(3ms, 5ms)}}, exchanges, kNoWait, {});
  account.finish(TimePoint(12ms));
  EXPECT_EQ(account.time(), (TimeBreakdown{.compute = 4ms, .communication = 1ms, .other = 7ms}));
  account.finish(TimePoint(11ms));
  EXPECT_EQ(account.time().total(), 12ms) << "time is never taken back";
}

TEST(StallAccount, DividesExchangesIntoExposedAndHidden) {
  StallAccount account(TimePoint(0ms));
  // The second exchange starts beside the backward pass; the optimizer waits for it. A copy of the
  // next batch runs beside it.
  const std::vector exchanges = {span(4ms, 6ms), span(8ms, 13ms)};
  const TimeBreakdown time = account.add_step(
      {.copy = span(9ms, 15ms), .turns = {span(0ms, 3ms), span(3ms, 10ms), span(14ms, 16ms)}},
      exchanges, kNoWait, {});
  EXPECT_EQ(time,
            (TimeBreakdown{
                .compute = 12ms, .communication = 3ms, .copy = 1ms, .hidden_communication = 4ms}));
  EXPECT_EQ(time.total(), 16ms);
}

TEST(StallAccount, TakesExchangesBeforeWaitingForABatch) {
  StallAccount account(TimePoint(0ms));
  const std::vector exchanges = {span(2ms, 4ms), span(5ms, 6ms)};
  const TimeBreakdown time =
      account.add_step({.turns = {span(10ms, 11ms)}}, exchanges, span(1ms, 9ms), {.prep = 1ms});
  EXPECT_EQ(time,
            (TimeBreakdown{.compute = 1ms, .communication = 3ms, .prep_wait = 5ms, .other = 2ms}));
}

}  // namespace
}  // namespace gpemu::train
