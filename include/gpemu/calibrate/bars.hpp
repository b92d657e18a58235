// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gpemu/calibrate/evaluate.hpp"

namespace gpemu::calibrate {

/// Returns whether a bar is stated for predictions from other GPUs: if its generation
/// informs other GPUs (GenerationFacts).
[[nodiscard]] bool states_transferred_bar(const profile::GpuSpec& spec);

/// Returns a bar for each of a protocol's steps that does not depend on that step: the bar of the
/// other families' steps on the same GPU or, if a whole GPU is left out, the bar of the other GPUs
/// for which a transferred bar is stated.
[[nodiscard]] std::vector<double> crossed_bars(const JoinedRecordings& recorded,
                                               const std::vector<CalibratedGpu>& gpus,
                                               const std::vector<PredictedStep>& steps,
                                               Protocol protocol);

/// Returns the bar that is stated for steps like those of a protocol on a GPU: the bar of all of
/// them or, if a GPU is left out, of the steps of all GPUs for which one is stated.
[[nodiscard]] double stated_bar(const std::vector<CalibratedGpu>& gpus,
                                const std::vector<PredictedStep>& steps, Protocol protocol,
                                int gpu);

}  // namespace gpemu::calibrate
