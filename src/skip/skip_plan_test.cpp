// SPDX-License-Identifier: Apache-2.0
#include "skip_plan.hpp"

#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::skip {
namespace {

using sim::WaitKind;
using Threads = std::vector<pid_t>;

constexpr std::int64_t kUs = 1000, kMs = 1000 * kUs, kHour = 3'600'000 * kMs;
constexpr std::int64_t kNow = kHour, kLast = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kSkippedUs = 70;

/// A wait until a time from now, of a thread that knows what was skipped.
SeenWait wait_of(pid_t thread, std::int64_t in_ns, WaitKind kind = WaitKind::kSleep) {
  return {
      .place = 0, .thread = thread, .kind = kind, .until_ns = kNow + in_ns, .armed_us = kSkippedUs};
}

/// The same of a thread that does not know.
SeenWait stale(SeenWait wait) {
  wait.armed_us = kSkippedUs - 1;
  return wait;
}

SeenWait until(std::int64_t time_ns, SeenWait wait) {
  wait.until_ns = time_ns;
  return wait;
}

SkipPlan plan_of(const std::vector<SeenWait>& waits, std::uint32_t permille = 1000) {
  return plan_skip(waits, kNow, kSkippedUs, {.since_ns = 0, .permille = permille, .unused = 0});
}

Threads threads_of(const std::vector<SeenWait>& waits) {
  Threads threads;
  for (const SeenWait& wait : waits) threads.push_back(wait.thread);
  return threads;
}

TEST(PlanSkip, NothingWithoutWaits) {
  const SkipPlan plan = plan_of({});
  EXPECT_EQ(plan.skip_us, 0);
  EXPECT_TRUE(plan.timed.empty());
  EXPECT_FALSE(plan.held);
  EXPECT_EQ(plan.stale_in_ns, kLast);
}

TEST(PlanSkip, SkipsWhatIsWorthItOnASlowerHost) {
  EXPECT_EQ(plan_of({wait_of(1, kMs)}, 5000).skip_us, 1000);
  EXPECT_EQ(plan_of({wait_of(1, kMs)}, 10'000).skip_us, 0) << "0.1 ms of this host";
  // 6 ms are 0.6 ms of this host, in which the thread could not wake up, learn and sleep again.
  EXPECT_EQ(plan_of({stale(wait_of(1, 6 * kMs))}).to_wake.size(), 0U);
  EXPECT_EQ(plan_of({stale(wait_of(1, 6 * kMs))}, 10'000).to_wake.size(), 1U);
}

TEST(PlanSkip, GoesToTheEndOfTheNextSleep) {
  const SkipPlan plan = plan_of({wait_of(1, 2 * kMs), wait_of(2, kMs + 999), wait_of(3, kHour)});
  EXPECT_EQ(plan.skip_us, 1000);
  EXPECT_EQ(plan.timed, (std::set<pid_t>{1, 2, 3}));
}

TEST(PlanSkip, LeavesShortTimesToTheHost) {
  EXPECT_EQ(plan_of({wait_of(1, 150 * kUs - 1)}).skip_us, 0);
  EXPECT_EQ(plan_of({wait_of(1, 150 * kUs)}).skip_us, 150);
}

TEST(PlanSkip, GoesADayAtMost) {
  const std::int64_t day_us = 24 * kHour / kUs;
  EXPECT_EQ(plan_of({wait_of(1, 24 * kHour + kUs)}).skip_us, day_us);
  for (const WaitKind kind : {WaitKind::kSleep, WaitKind::kTimeout}) {
    EXPECT_EQ(plan_of({until(kLast, wait_of(1, 0, kind))}).skip_us, day_us);
  }
}

TEST(PlanSkip, LimitsEndTogether) {
  const auto limit = [](pid_t thread, std::int64_t in_ns) {
    return wait_of(thread, in_ns, WaitKind::kTimeout);
  };
  std::vector<SeenWait> waits = {limit(1, kMs + 501 * kUs), limit(2, kMs),
                                 limit(3, kMs + 500 * kUs)};
  EXPECT_EQ(plan_of(waits).skip_us, 1500);
  // But no sleep comes late.
  waits.push_back(wait_of(4, kMs + 200 * kUs));
  EXPECT_EQ(plan_of(waits).skip_us, 1200);
}

TEST(PlanSkip, NothingWhileAWaitIsOver) {
  const SeenWait later = wait_of(1, kHour);
  EXPECT_EQ(plan_of({later, wait_of(2, 0)}).skip_us, 0);
  EXPECT_EQ(plan_of({later, wait_of(2, 0, WaitKind::kTimeout)}).skip_us, 0);
  // A place that is just being taken.
  const SkipPlan plan = plan_of({later, stale(until(sim::kNotYet, wait_of(2, 0)))});
  EXPECT_EQ(plan.skip_us, 0);
  EXPECT_TRUE(plan.to_wake.empty());
}

TEST(PlanSkip, ChecksThreadsWhoseWaitsAreOverdue) {
  EXPECT_TRUE(plan_of({wait_of(1, -2 * kMs)}).to_check.empty());
  EXPECT_EQ(threads_of(plan_of({wait_of(1, -2 * kMs - 1)}).to_check), Threads{1});
}

TEST(PlanSkip, NothingWhileATimerRuns) {
  const SkipPlan plan = plan_of({wait_of(1, kHour), wait_of(2, 1, WaitKind::kHold)});
  EXPECT_TRUE(plan.held);
  EXPECT_EQ(plan.skip_us, 0);
  EXPECT_EQ(plan.timed, std::set<pid_t>{1});
  // Unless its process has died.
  EXPECT_EQ(threads_of(plan.to_check), Threads{2});
}

TEST(PlanSkip, FreesTimersThatHaveEnded) {
  const SkipPlan plan = plan_of({wait_of(1, kHour), wait_of(2, 0, WaitKind::kHold),
                                 until(sim::kNotYet, wait_of(3, 0, WaitKind::kHold))});
  EXPECT_FALSE(plan.held);
  EXPECT_EQ(plan.skip_us, kHour / kUs);
  EXPECT_EQ(threads_of(plan.to_free), Threads{2});
}

TEST(PlanSkip, TellsSleepsBeforeTheyEnd) {
  const SkipPlan plan = plan_of({stale(wait_of(1, 5 * kMs)), stale(wait_of(2, 5 * kMs + 7)),
                                 stale(wait_of(3, kHour)), wait_of(4, kMs)});
  EXPECT_EQ(threads_of(plan.to_wake), Threads{1});
  EXPECT_TRUE(plan.to_signal.empty());
  EXPECT_EQ(plan.stale_in_ns, 7);
}

TEST(PlanSkip, SignalsLimitsThatHaveEnded) {
  const SkipPlan plan =
      plan_of({stale(wait_of(1, 0, WaitKind::kTimeout)), stale(wait_of(2, 3, WaitKind::kTimeout)),
               wait_of(3, 0, WaitKind::kTimeout)});
  EXPECT_EQ(threads_of(plan.to_signal), Threads{1});
  EXPECT_TRUE(plan.to_wake.empty());
  EXPECT_EQ(plan.stale_in_ns, 3);
}

TEST(PlanSkip, BearsAnyBytes) {
  const SkipPlan plan =
      plan_of({stale(until(sim::kNotYet + 1, wait_of(1, 0))),
               stale(until(sim::kNotYet + 1, wait_of(-1, 0, WaitKind::kTimeout)))});
  EXPECT_EQ(plan.skip_us, 0);
  EXPECT_EQ(threads_of(plan.to_wake), Threads{1});
  EXPECT_EQ(threads_of(plan.to_signal), Threads{-1});
}

}  // namespace
}  // namespace gpemu::skip
