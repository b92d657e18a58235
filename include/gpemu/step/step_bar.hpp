// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpemu::step {

/// The bar of the host's time to launch a step. Source: scripts/claims/published_bars.py, 153
/// training steps on six hosts that need one and a half times as long as their GPU, or longer: nine
/// of ten are within 0.39. Only two of these hosts have parameters from steps or programs on them.
inline constexpr double kHostError = 0.4;

/// Bars of operations are of steps that consist of nothing else. Errors of different ones cancel
/// each other: nine of ten steps are within the mean bar of their operations to this power, times
/// being taken by their logarithms. Source: scripts/claims/published_bars.py, 230 steps of 14
/// families that no fit used, of which each counts the same; of those of each family, 88 % in the
/// mean are within the bars that the others give.
inline constexpr double kMixedSteps = 0.8;

/// Returns the bar of a GPU's time for a step whose operations have such a mean bar.
[[nodiscard]] double bar_of_mixed(double mean);

/// A time, in any unit, and its bar, as in Estimate.
struct BarredTime {
  double time = 0;
  double bar = 0;
};

/// Returns the bar of the longer of two times: of a GPU and its host, which work side by side. That
/// is its own bar if the other one is much shorter, and between both if they are alike, because
/// either may be the longer. Their logarithms are taken to be distributed normally and independent
/// of each other. Requires: times and bars are not negative.
[[nodiscard]] double bar_of_longer(const BarredTime& one, const BarredTime& other);

}  // namespace gpemu::step
