// SPDX-License-Identifier: Apache-2.0
#include "gpemu/skip/skipper.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <utility>

#include <climits>
#include <gtest/gtest.h>

#include "gpemu/sim/shared_clock.hpp"

#include "test_processes.hpp"

namespace gpemu::skip {
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

  [[nodiscard]] Skipper::Options options_of(const TestProcesses& processes) const {
    return {.root = processes.root(), .segment = {}, .host_clock = host_clock_, .has_all = {}};
  }

  static bool reaches(const std::atomic<int>& count, int wanted) {
    return eventually([&] { return count >= wanted; });
  }

  const sim::RealClock host_clock_;
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
  const auto skipper = Skipper::start(*page_, options_of(processes)).value();
  ASSERT_TRUE(reaches(*done_, 2));
  const Skipper::Report& report = skipper->stop();
  EXPECT_GE(report.skips, 2U);
  EXPECT_EQ(report.skipped, Duration(page_->skipped_ns()));
  EXPECT_LE(report.skipped, 2 * kLong);
  EXPECT_EQ(page_->skipping, 0U);
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
  const auto skipper = Skipper::start(*page_, options_of(processes)).value();
  ASSERT_TRUE(reaches(*done_, 1));
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
  const auto skipper = Skipper::start(*page_, std::move(options)).value();
  ASSERT_TRUE(reaches(asked, 3));
  EXPECT_EQ(page_->skipped_us(), 0U);
  *alone = true;
  ASSERT_TRUE(reaches(*done_, 1));
  EXPECT_GT(page_->skipped_us(), 0U);
}

TEST_F(SkipperTest, ForgetsTheWaitsOfTheDead) {
  TestProcesses processes({[&] {
    sim::SharedClock clock(*page_);
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      clock.wait_until(clock.now() + kLong);
    }
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
  for (const auto& [kind, until_ns] : {std::pair(sim::WaitKind::kSleep, std::int64_t{1}),
                                       std::pair(sim::WaitKind::kHold, INT64_MAX)}) {
    static_cast<void>(sim::publish(*page_, INT_MAX, kind, until_ns, [] {}));
  }
  const auto skipper = Skipper::start(*page_, options_of(processes)).value();
  ASSERT_TRUE(reaches(*done_, 1));
}

}  // namespace
}  // namespace gpemu::skip
