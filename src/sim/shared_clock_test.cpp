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

TEST_F(SharedClockTest, NeverReturnsBeforeTheDeadline) {
  for (const std::uint32_t skipping : {0U, 1U}) {
    page_->skipping = skipping;
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
