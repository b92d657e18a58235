// SPDX-License-Identifier: Apache-2.0
#include "gpemu/sim/clock.hpp"

#include <gtest/gtest.h>

namespace gpemu::sim {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

TEST(VirtualClock, JumpsToTheDeadline) {
  VirtualClock clock;
  EXPECT_EQ(clock.now(), TimePoint{});
  clock.wait_until(TimePoint(1h));
  EXPECT_EQ(clock.now(), TimePoint(1h));
}

TEST(VirtualClock, RefusesToRunBackwards) {
  VirtualClock clock;
  clock.wait_until(TimePoint(10ms));
  clock.wait_until(TimePoint(3ms));
  EXPECT_EQ(clock.now(), TimePoint(10ms));
}

TEST(RealClock, NeverReturnsBeforeTheDeadline) {
  RealClock clock;
  const TimePoint deadline = clock.now() + 300us;
  clock.wait_until(deadline);
  EXPECT_GE(clock.now(), deadline);
}

TEST(RealClock, WithoutSpinNeverReturnsBeforeTheDeadlineEither) {
  RealClock clock(Duration::zero());
  const TimePoint deadline = clock.now() + 300us;
  clock.wait_until(deadline);
  EXPECT_GE(clock.now(), deadline);
  EXPECT_EQ(clock.spun(), Duration::zero());
}

}  // namespace
}  // namespace gpemu::sim
