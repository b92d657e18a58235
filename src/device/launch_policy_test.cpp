// SPDX-License-Identifier: Apache-2.0
#include "launch_policy.hpp"

#include <memory>

#include <gtest/gtest.h>

#include "solo_rate.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

constexpr KernelNeeds kComputeBound{.compute = 8000, .memory = 2000};
constexpr KernelNeeds kMemoryBound{.compute = 2000, .memory = 8000};
constexpr KernelNeeds kBoundByNothing{.compute = 5000, .memory = 5000};

/// Processes that queue work all the time, and somebody who looks often.
class Others {
 public:
  /// Lets time pass until `until`, while they queue so much work per time, and looks.
  template <typename Look>
  void work(Duration until, double rate, const Look& look) {
    for (; now.time_since_epoch() < until; now += kStep) {
      queued += std::chrono::duration_cast<Duration>(kStep * rate);
      look();
    }
  }

  static constexpr Duration kStep = 50ms;
  TimePoint now{};
  Duration queued{};
};

class SoloRateTest : public testing::Test {
 protected:
  /// Returns how many periods have ended.
  int work(Duration until, double rate) {
    int ended = 0;
    others_.work(until, rate, [&] { ended += rate_.update(others_.now, others_.queued) ? 1 : 0; });
    return ended;
  }

  Others others_;
  SoloRate rate_;
};

TEST_F(SoloRateTest, IsMeasuredInTheFirstPeriods) {
  EXPECT_EQ(work(25s, 0.4), 4);
  EXPECT_FALSE(rate_.is_measured());
  EXPECT_EQ(work(26s, 0.4), 1);
  ASSERT_TRUE(rate_.is_measured());
  EXPECT_NEAR(rate_.rate(), 0.4, 1e-9);
  EXPECT_NEAR(rate_.loss(), 0, 1e-9);
}

TEST_F(SoloRateTest, ALossIsAPartOfIt) {
  work(26s, 0.4);
  work(36s, 0.36);
  EXPECT_NEAR(rate_.loss(), 0.1, 1e-9);
}

TEST_F(SoloRateTest, IsMeasuredAgainWhenItChanges) {
  work(26s, 0.4);
  work(44s, 0.2);
  EXPECT_TRUE(rate_.is_measured()) << "two periods had the old rate";
  work(51s, 0.2);
  EXPECT_FALSE(rate_.is_measured());
}

TEST_F(SoloRateTest, APeriodEndsWhenTheNextStepBegins) {
  // 2 s of work each 3 s.
  for (int second = 0; second < 60; ++second) {
    const bool ended = rate_.update(TimePoint(second * 1s), second / 3 * 2s);
    EXPECT_EQ(ended, second > 0 && second % 6 == 0) << second;
  }
  EXPECT_NEAR(rate_.rate(), 2.0 / 3, 1e-9);
  EXPECT_NEAR(rate_.loss(), 0, 1e-9);
}

TEST_F(SoloRateTest, NothingInMostPeriodsIsIdle) {
  work(26s, 0.4);
  work(60s, 0);
  EXPECT_FALSE(rate_.is_idle()) << "such periods take twice as long";
  work(70s, 0);
  EXPECT_TRUE(rate_.is_idle());
}

/// A policy in a process that is held back.
class LaunchPolicyTest : public testing::Test {
 protected:
  /// Lets the other processes queue so much work per time, while it looks.
  void work(Duration until, double rate) {
    others_.work(until, rate, [&] { wait(); });
  }
  /// Returns how long from now on it may not launch a kernel.
  Duration wait(const LaunchView& others = {}, const KernelNeeds& needs = {}) {
    LaunchView view = others;
    view.now = now();
    view.queued = others_.queued;
    return std::max(policy_->launch_from(view, {.cost = 10us, .needs = needs}) - now(), Duration());
  }
  /// Returns how much it may launch at once.
  Duration launch_all() {
    Duration sum{};
    for (; wait() == Duration() && sum < 1s; sum += 10us) policy_->note_launch({.cost = 10us});
    return sum;
  }
  [[nodiscard]] TimePoint now() const { return others_.now; }

  Others others_;
  std::unique_ptr<LaunchPolicy> policy_;
};

TEST_F(LaunchPolicyTest, AntManFirstMeasuresTheGuaranteedJob) {
  policy_ = make_antman({});
  EXPECT_EQ(wait(), 5s);
  work(20s, 0.4);
  EXPECT_GT(wait(), 0s);
}

TEST_F(LaunchPolicyTest, AntManLaunchesWhileTheGuaranteedJobIsIdle) {
  policy_ = make_antman({});
  work(26s, 0.4);
  EXPECT_EQ(wait(), 0s);
  EXPECT_EQ(wait({.running = KernelNeeds{}, .next_change = now() + 3ms}), 3ms);
  EXPECT_EQ(wait({.in_flight = 200us}), 0s);
  EXPECT_EQ(wait({.in_flight = 250us}), 50us);
}

TEST_F(LaunchPolicyTest, AntManInsertsIdleTimeWhenTheGuaranteedJobIsSlower) {
  policy_ = make_antman({.context_switch = 100us});
  work(31s, 0.4);
  EXPECT_EQ(wait({.idle_from = now()}), 0s);
  work(36s, 0.36);
  EXPECT_EQ(wait({.idle_from = now()}), 100us);
  work(41s, 0.36);
  EXPECT_EQ(wait({.idle_from = now()}), 200us);
  work(46s, 0.4);
  EXPECT_EQ(wait({.idle_from = now()}), 175us) << "less an eighth";
  EXPECT_EQ(wait({.idle_from = now() - 175us}), 0s);
}

TEST_F(LaunchPolicyTest, TgsAllowsOneKernelPerWindowWhileItMeasures) {
  policy_ = make_tgs();
  EXPECT_EQ(launch_all(), 10us);
  others_.now += 10ms;
  EXPECT_EQ(wait(), 40ms);
  others_.now += 40ms;
  EXPECT_EQ(launch_all(), 10us);
}

TEST_F(LaunchPolicyTest, TgsRaisesTheLimitByHalf) {
  policy_ = make_tgs();
  work(26s, 0.4);
  EXPECT_EQ(launch_all(), 1010us) << "1 ms of 50; one kernel may exceed it";
  work(31s, 0.4);
  EXPECT_EQ(launch_all(), 1510us);
  work(36s, 0.4);
  EXPECT_EQ(launch_all(), 2260us);
}

TEST_F(LaunchPolicyTest, TgsCutsTheLimitWhenTheProductionJobIsSlower) {
  policy_ = make_tgs();
  work(46s, 0.4);
  EXPECT_EQ(launch_all(), 5070us) << "after four more periods";
  work(51s, 0.38);
  EXPECT_EQ(launch_all(), 3380us) << "two thirds";
  work(56s, 0.34);
  EXPECT_EQ(launch_all(), 320us) << "less 8 %, then a tenth, because it lost a lot";
}

TEST_F(LaunchPolicyTest, OrionLaunchesBesideKernelsThatNeedSomethingElse) {
  policy_ = make_orion();
  others_.now = TimePoint(1s);
  const LaunchView computes{.running = kComputeBound, .next_change = now() + 30us};
  EXPECT_EQ(wait(computes, kMemoryBound), 0s);
  EXPECT_EQ(wait(computes, kBoundByNothing), 0s);
  EXPECT_EQ(wait(computes, kComputeBound), 30us);
  const LaunchView copies{.running = kMemoryBound, .next_change = now() + 30us};
  EXPECT_EQ(wait(copies, kComputeBound), 0s);
  EXPECT_EQ(wait(copies, kMemoryBound), 30us);
  EXPECT_EQ(wait({}, kMemoryBound), 0s) << "nobody else is there";
}

TEST_F(LaunchPolicyTest, OrionLimitsWhatIsInFlight) {
  policy_ = make_orion();
  others_.now = TimePoint(1s);
  policy_->note_launch({.cost = 60us});
  EXPECT_EQ(wait({.in_flight = 60us}), 0s);
  policy_->note_launch({.cost = 60us});
  EXPECT_EQ(wait({.in_flight = 90us}), 90us) << "all must end first";
  EXPECT_EQ(wait({.in_flight = 10us}), 10us);
  EXPECT_EQ(wait(), 0s);
}

}  // namespace
}  // namespace gpemu::device
