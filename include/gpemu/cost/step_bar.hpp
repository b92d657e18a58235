// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpemu::cost {

/// The bar of the host's time to launch a step. Source: scripts/claims/published_bars.py, 153
/// training steps on six hosts that need one and a half times as long as their GPU, or longer: nine
/// of ten are within 0.42. Only two of these hosts have parameters from steps or programs on them.
inline constexpr double kHostError = 0.45;

/// A time, in any unit, and its bar, as in Estimate.
struct BarredTime {
  double time = 0;
  double bar = 0;
};

/// Returns the bar of the longer of two times: of a GPU and its host, which work side by side. If
/// one is much longer, that is its own bar; if they are alike, the other one may be the longer.
/// The logarithms of both are taken to be distributed normally and independent of each other.
/// Requires: times and bars are not negative.
[[nodiscard]] double bar_of_longer(const BarredTime& one, const BarredTime& other);

}  // namespace gpemu::cost
