// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/skipper.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

#include <climits>
#include <gtest/gtest.h>

#include "gpemu/sim/shared_clock.hpp"

#include "test_processes.hpp"

namespace gpemu::run {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

/// Longer than any test may take, so it must have been skipped.
constexpr Duration kLong = 1h;

class SkipperTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kHasThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer's own thread never waits";
  }

  SkipperTest() { page_->skipping = 1; }

  Skipper::Options options_of(const TestProcesses& processes) const {
    return {.root = processes.root(), .segment = {}, .has_all = {}};
  }

  static void wait_for(const std::atomic<int>& count, int wanted) {
    while (count < wanted) std::this_thread::yield();
  }

  Shared<sim::ClockPage> page_;
  Shared<std::atomic<int>> done_;
};

TEST_F(SkipperTest, SkipsWhatAllWaitFor) {
  const TimePoint start = sim::SharedClock(*page_).now();
  const auto sleep = [&](Duration time) {
    sim::SharedClock(*page_).wait_until(start + time);
    ++*done_;
    while (true) ::pause();
  };
  TestProcesses processes({[&] { sleep(kLong); }, [&] { sleep(2 * kLong); }});
  Skipper skipper(*page_, options_of(processes));
  wait_for(*done_, 2);
  const Skipper::Report& report = skipper.stop();
  EXPECT_GE(report.skips, 2U);
  EXPECT_EQ(report.skipped, Duration(page_->skipped_ns()));
  EXPECT_LE(report.skipped, 2 * kLong);
}

TEST_F(SkipperTest, GoesToTheNextTimeOnly) {
  // Each step is one hour after the previous one, whatever the other process waits for.
  const TimePoint start = sim::SharedClock(*page_).now();
  const Shared<std::atomic<std::int64_t>> late_ns;
  const auto step = [&](int steps, Duration time) {
    sim::SharedClock clock(*page_);
    for (int i = 1; i <= steps; ++i) {
      clock.wait_until(start + i * time);
      late_ns->fetch_add((clock.now() - (start + i * time)).count());
    }
    ++*done_;
    while (true) ::pause();
  };
  TestProcesses processes({[&] { step(20, kLong); }, [&] { step(10, 2 * kLong); }});
  Skipper skipper(*page_, options_of(processes));
  wait_for(*done_, 2);
  EXPECT_LT(Duration(*late_ns), kLong / 2);
}

TEST_F(SkipperTest, SkipsNothingWhileSomebodyComputes) {
  const Shared<std::atomic<bool>> computed;
  const Shared<std::atomic<std::uint64_t>> skipped_us;
  TestProcesses processes({[&] {
                             sim::SharedClock clock(*page_);
                             clock.wait_until(clock.now() + kLong);
                             ++*done_;
                             while (true) ::pause();
                           },
                           [&] {
                             const std::uint64_t before = page_->skipped_us();
                             const std::clock_t begin = std::clock();
                             while (std::clock() - begin < CLOCKS_PER_SEC / 5) {
                             }
                             *skipped_us = page_->skipped_us() - before;
                             *computed = true;
                             while (true) ::pause();
                           }});
  Skipper skipper(*page_, options_of(processes));
  wait_for(*done_, 1);
  EXPECT_TRUE(*computed);
  EXPECT_EQ(*skipped_us, 0U);
}

TEST_F(SkipperTest, SkipsNothingWhileOthersTakePart) {
  const Shared<std::atomic<bool>> alone;
  TestProcesses processes({[&] {
    sim::SharedClock clock(*page_);
    clock.wait_until(clock.now() + kLong);
    ++*done_;
    while (true) ::pause();
  }});
  std::atomic<int> asked = 0;
  Skipper::Options options = options_of(processes);
  options.has_all = [&](const std::set<pid_t>& inside) {
    EXPECT_EQ(inside.size(), 1U);
    ++asked;
    return alone->load();
  };
  Skipper skipper(*page_, std::move(options));
  wait_for(asked, 3);
  EXPECT_EQ(page_->skipped_us(), 0U);
  *alone = true;
  wait_for(*done_, 1);
  EXPECT_GT(page_->skipped_us(), 0U);
}

TEST_F(SkipperTest, SkipsNothingWhileATimerRuns) {
  TestProcesses processes({[&] {
    sim::SharedClock clock(*page_);
    const auto end_ns = (clock.now() + 20ms).time_since_epoch().count();
    sim::TimedWait* const timer =
        sim::publish(*page_, ::getpid(), sim::WaitKind::kHold, end_ns, [] {});
    clock.wait_until(clock.now() + 10ms);
    const bool skipped = page_->skipped_us() != 0;
    sim::withdraw(*page_, *timer);
    clock.wait_until(clock.now() + kLong);
    *done_ = skipped ? 2 : 1;
    while (true) ::pause();
  }});
  Skipper skipper(*page_, options_of(processes));
  wait_for(*done_, 1);
  EXPECT_EQ(*done_, 1);
}

TEST_F(SkipperTest, ForgetsTheWaitsOfTheDead) {
  TestProcesses processes({[&] {
    sim::SharedClock clock(*page_);
    const pid_t child = ::fork();
    if (child == 0) clock.wait_until(clock.now() + kLong);
    // Killed during a wait that ends before the other.
    const auto waits = [child](const sim::TimedWait& wait) { return wait.thread == child; };
    while (std::ranges::none_of(page_->waits, waits)) {
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    clock.wait_until(clock.now() + 2 * kLong);
    ++*done_;
    while (true) ::pause();
  }});
  static_cast<void>(sim::publish(*page_, INT_MAX, sim::WaitKind::kSleep, 1, [] {}));
  Skipper skipper(*page_, options_of(processes));
  wait_for(*done_, 1);
}

TEST_F(SkipperTest, StopsWithItsObject) {
  TestProcesses processes({[] {
    while (true) ::pause();
  }});
  {
    const Skipper skipper(*page_, options_of(processes));
    EXPECT_EQ(page_->skipping, 1U);
  }
  EXPECT_EQ(page_->skipping, 0U);
}

}  // namespace
}  // namespace gpemu::run
