// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gpemu/calibrate/evaluate.hpp"

namespace gpemu::calibrate {

/// The share of predictions whose bar is to hold what was measured, as cost::Estimate has it, and
/// between which shares a bar counts as right.
inline constexpr double kBarCoverage = 0.9;
inline constexpr double kLeastCoverage = 0.85;
inline constexpr double kMostCoverage = 0.95;

/// Returns the bar of predictions like those whose misses these are: the least that holds nine of
/// ten of them and of one more that is larger than all (split conformal prediction: Lei et al.,
/// "Distribution-Free Predictive Inference for Regression", 2018). Infinite for fewer than nine.
[[nodiscard]] double bar_of(std::vector<double> misses);

/// Whether a bar is stated for what other GPUs predict for one: not for those before Maxwell, which
/// share neither multiprocessors nor caches with any later one.
[[nodiscard]] bool states_transferred_bar(const profile::GpuSpec& spec);

/// Returns a bar for each of a protocol's steps that knows nothing of the step: it is that of the
/// steps of other families on the same GPU, or where a whole GPU is left out of those of other
/// GPUs, as far as a transferred bar is stated for them.
[[nodiscard]] std::vector<double> crossed_bars(const JoinedRecordings& recorded,
                                               const std::vector<CalibratedGpu>& gpus,
                                               const std::vector<PredictedStep>& steps,
                                               Protocol protocol);

/// Returns the bar that is stated for what is like the steps of a protocol on a GPU: that of all of
/// them, or where a GPU is left out of those of all GPUs for which one is stated.
[[nodiscard]] double stated_bar(const std::vector<CalibratedGpu>& gpus,
                                const std::vector<PredictedStep>& steps, Protocol protocol,
                                int gpu);

}  // namespace gpemu::calibrate
