// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/calibrate/evaluate.hpp"
#include "gpemu/profile/calibration.hpp"

namespace gpemu::calibrate {

/// Fits the parameters of all GPUs together, to all of their steps. Returns one calibration for
/// each; who calls knows its command and its pack. Deterministic. Errors: those of fit().
[[nodiscard]] Result<std::vector<profile::Calibration>> calibrate_gpus(
    const JoinedRecordings& recorded, const std::vector<CalibratedGpu>& gpus);

/// Returns the GPU whose calibration holds for convolutions and products of the arithmetic that a
/// GPU's own does not rest on, with tensor cores or without: the nearest by nearest_gpu(), else by
/// compute capability. Empty for a GPU without tensor cores, and where no other GPU is of the other
/// arithmetic. `calibrations` has one entry per GPU.
[[nodiscard]] std::string_view other_arithmetic(const CalibratedGpu& gpu,
                                                std::span<const CalibratedGpu> gpus,
                                                std::span<const profile::Calibration> calibrations);

}  // namespace gpemu::calibrate
