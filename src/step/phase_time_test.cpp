// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/phase_time.hpp"

#include <array>

#include <gtest/gtest.h>

namespace gpemu::step {
namespace {

TEST(PhaseSeconds, AFastHostLeavesTheGpuNoGap) {
  const std::array launches = {1.0, 1.0, 1.0}, operations = {10.0, 10.0, 10.0};
  std::size_t critical = 7;
  EXPECT_EQ(phase_seconds(launches, operations, &critical), 31);
  EXPECT_EQ(critical, 0U);
}

TEST(PhaseSeconds, ASlowHostHasOnlyTheLastOperationLeft) {
  const std::array launches = {10.0, 10.0, 10.0}, operations = {1.0, 1.0, 2.0};
  std::size_t critical = 7;
  EXPECT_EQ(phase_seconds(launches, operations, &critical), 32);
  EXPECT_EQ(critical, 2U);
}

TEST(PhaseSeconds, TheGpuCatchesUpBetweenLongOperations) {
  // It waits for the third, which is late, and from there on has no gap.
  const std::array launches = {1.0, 1.0, 20.0, 1.0}, operations = {5.0, 5.0, 8.0, 8.0};
  std::size_t critical = 7;
  EXPECT_EQ(phase_seconds(launches, operations, &critical), 22 + 16);
  EXPECT_EQ(critical, 2U);
  EXPECT_EQ(phase_seconds({}, {}), 0);
}

PhaseTimes phase(double launch, double operation, double wait) {
  return {.launches = std::vector<double>(10, launch),
          .operations = std::vector<double>(10, operation),
          .wait = wait};
}

TEST(PhaseTimes, PartsAreScaledApart) {
  EXPECT_EQ(phase(1, 10, 5).seconds(), 1 + 100 + 5);
  EXPECT_EQ(phase(1, 10, 5).seconds({.host = 2}), 2 + 100 + 10);
  EXPECT_EQ(phase(1, 10, 5).seconds({.device = 3}), 1 + 300 + 5);
}

TEST(PhaseTimes, WhatBoundsAPhaseIsCorrectedMost) {
  const PhaseScale device = scale_to(phase(1, 100, 0), 2000);
  EXPECT_NEAR(phase(1, 100, 0).seconds(device), 2000, 1e-6);
  EXPECT_NEAR(device.device, 2, 0.01);
  EXPECT_NEAR(device.host, 1, 0.01);
  const PhaseScale host = scale_to(phase(100, 1, 7), 500);
  EXPECT_NEAR(phase(100, 1, 7).seconds(host), 500, 1e-6);
  EXPECT_NEAR(host.host, 0.5, 0.01);
  EXPECT_NEAR(host.device, 1, 0.01);
}

TEST(PhaseTimes, ACorrectionCountsLessFurtherAway) {
  const PhaseTimes known = phase(1, 10, 0), other = phase(1, 40, 0);
  const PhaseScale scale = scale_to(known, 4 * known.seconds());
  EXPECT_NEAR(corrected_seconds(known, scale, 0), 4 * known.seconds(), 1e-6);
  EXPECT_NEAR(corrected_seconds(other, scale, 1) / other.seconds(), 2.83, 0.05);  // 4 ^ (3 / 4)
  EXPECT_NEAR(corrected_seconds(other, scale, 50) / other.seconds(), 2, 0.05);    // 4 ^ (1 / 2)
}

TEST(PhaseTimes, AnEmptyPhaseIsItsWait) {
  const PhaseTimes empty{.wait = 1};
  EXPECT_NEAR(empty.seconds(scale_to(empty, 3)), 3, 1e-9);
}

}  // namespace
}  // namespace gpemu::step
