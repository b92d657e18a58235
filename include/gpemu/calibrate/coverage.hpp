// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace gpemu::calibrate {

/// The share of predictions whose bar should contain the measurement, as in cost::Estimate, and the
/// shares between which a bar counts as right.
inline constexpr double kBarCoverage = 0.9;
inline constexpr double kLeastCoverage = 0.85;
inline constexpr double kMostCoverage = 0.95;

/// Returns the bar for predictions like those with these misses: the smallest that contains nine
/// tenths of them, counting one more miss that is larger than all (split conformal prediction: Lei
/// et al., "Distribution-Free Predictive Inference for Regression", 2018). Infinite for fewer than
/// nine misses.
[[nodiscard]] double bar_of(std::vector<double> misses);

}  // namespace gpemu::calibrate
