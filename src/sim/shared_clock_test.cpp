// SPDX-License-Identifier: Apache-2.0
#include "gpemu/sim/shared_clock.hpp"

#include <chrono>
#include <linux/futex.h>
#include <memory>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <climits>
#include <gtest/gtest.h>

namespace gpemu::sim {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

class SharedClockTest : public testing::Test {
 protected:
  static void skip(ClockPage& page, std::chrono::microseconds time) {
    page.state += static_cast<std::uint64_t>(time.count());
  }

  /// Returns the only wait that is published, once there is one.
  TimedWait& the_wait() {
    while (true) {
      for (TimedWait& wait : page_->waits) {
        if (wait.thread != 0 && wait.until_ns > 0) return wait;
      }
      std::this_thread::yield();
    }
  }

  [[nodiscard]] int waits() const {
    int count = 0;
    for (const TimedWait& wait : page_->waits) count += wait.thread != 0 ? 1 : 0;
    return count;
  }

  std::unique_ptr<ClockPage> page_ = std::make_unique<ClockPage>();
  SharedClock clock_{*page_};
};

TEST_F(SharedClockTest, IsTheHostsPlusWhatWasSkipped) {
  skip(*page_, 1h);
  const TimePoint before = clock_.host_now();
  const TimePoint now = clock_.now();
  EXPECT_GE(now, before + 1h);
  EXPECT_LE(now, clock_.host_now() + 1h);
}

TEST_F(SharedClockTest, RunsFasterIfTheHostIsSlower) {
  page_->pace = {.since_ns = to_ns(clock_.host_now()), .permille = 3000, .unused = 0};
  skip(*page_, 1h);
  const TimePoint since = at_ns(page_->pace.since_ns);
  const TimePoint before = clock_.host_now();
  const TimePoint now = clock_.now();
  EXPECT_GE(now - since, 3 * (before - since) + 1h);
  EXPECT_LE(now - since, 3 * (clock_.host_now() - since) + 1h);
}

TEST_F(SharedClockTest, NeverReturnsBeforeTheDeadline) {
  for (const std::uint32_t skipping : {0U, 1U}) {
    page_->skipping = skipping;
    page_->pace = {.since_ns = 5, .permille = skipping * 7001, .unused = 0};
    const TimePoint deadline = clock_.now() + 300us;
    clock_.wait_until(deadline);
    EXPECT_GE(clock_.now(), deadline);
    EXPECT_EQ(waits(), 0);
  }
}

TEST_F(SharedClockTest, PublishesNothingWhileNobodySkips) {
  clock_.wait_until(clock_.now() + 300us);
  EXPECT_EQ(page_->published, 0U);
}

TEST_F(SharedClockTest, ASkipEndsAWaitOfAnHour) {
  page_->skipping = 1;
  const TimePoint deadline = clock_.now() + 1h;
  std::jthread waiter([&] { clock_.wait_until(deadline); });
  TimedWait& wait = the_wait();
  EXPECT_EQ(wait.kind, static_cast<std::uint32_t>(WaitKind::kSleep));
  // Woken a little before, as by the real clock, to be there exactly.
  EXPECT_EQ(at_ns(wait.until_ns), deadline - RealClock::kDefaultSpin);
  skip(*page_, 1h);
  ++wait.woken;
  ::syscall(SYS_futex, &wait.woken, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  waiter.join();
  EXPECT_GE(clock_.now(), deadline);
  EXPECT_EQ(waits(), 0);
}

TEST(ClockPage, AWaitThatEndsLeavesAnotherState) {
  const auto page = std::make_unique<ClockPage>();
  page->state = 5;
  TimedWait* const wait = publish(*page, 7, WaitKind::kTimeout, 9, [] {});
  ASSERT_NE(wait, nullptr);
  EXPECT_EQ(wait->thread, 7);
  EXPECT_EQ(wait->until_ns, 9);
  EXPECT_EQ(page->state, 5U);
  withdraw(*page, *wait);
  EXPECT_NE(page->state, 5U);
  EXPECT_EQ(page->skipped_us(), 5U);
  EXPECT_EQ(wait->thread, 0);
}

TEST(ClockPage, CountsEndedWaitsWithoutTouchingTheTime) {
  const auto page = std::make_unique<ClockPage>();
  page->state = ClockPage::kSkippedMask;
  for (int i = 0; i < 70'000; ++i) withdraw(*page, *publish(*page, 1, WaitKind::kSleep, 1, [] {}));
  EXPECT_EQ(page->skipped_us(), ClockPage::kSkippedMask);
}

TEST(HostPace, TranslatesTimesThereAndBack) {
  const HostPace pace{.since_ns = 1000, .permille = 2300, .unused = 0};
  EXPECT_EQ(pace.to_node(1000), 2300);
  EXPECT_EQ(pace.to_host(2300), 1000);
  EXPECT_EQ(pace.to_host(2301), 1001) << "not before the time has come";
  EXPECT_EQ(pace.ahead_ns(1000), 0);
  EXPECT_EQ(pace.ahead_ns(2000), 1300);
  EXPECT_EQ(pace.host_time(3300), 2000);
  for (const std::int64_t node : {0LL, 999LL, 1001LL, 4'567'890LL, 1'000'000'000'000'000'007LL}) {
    const std::int64_t host = pace.host_time(node);
    EXPECT_GE(host + pace.ahead_ns(host), node);
    EXPECT_LT(host - 1 + pace.ahead_ns(host - 1), node);
  }
}

TEST(HostPace, IsValidWithAnyBytes) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::uint32_t permille : {0U, 1U, 999U, 1000U, 1001U, ~0U}) {
    for (const std::int64_t since : {-kMost - 1, -1L, 0L, 1L, kMost}) {
      const HostPace pace{.since_ns = since, .permille = permille, .unused = 0};
      EXPECT_GE(pace.ahead_ns(kMost / 2), 0);
      EXPECT_GE(pace.host_time(kMost / 2), 0);
      EXPECT_EQ(pace.to_node(-7), -7);
      EXPECT_GE(pace.to_node(kMost - 1), kMost - 1);
      EXPECT_EQ(pace.to_host(kMost), kMost);
    }
  }
}

TEST(ClockPage, TellsWhoListens) {
  const auto page = std::make_unique<ClockPage>();
  int told = 0;
  const auto tell = [&told] { ++told; };
  static_cast<void>(publish(*page, 1, WaitKind::kSleep, 1, tell));
  page->listening = 1;
  static_cast<void>(publish(*page, 2, WaitKind::kSleep, 1, tell));
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace gpemu::sim
