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
/// each; the caller fills in the command and the pack. Deterministic. Errors: those of fit().
[[nodiscard]] Result<std::vector<profile::Calibration>> calibrate_gpus(
    const JoinedRecordings& recorded, const std::vector<CalibratedGpu>& gpus);

/// Returns the GPU whose calibration prices convolutions and products in the arithmetic (with or
/// without tensor cores) that was not measured on this GPU: the nearest by nearest_gpu(), else by
/// compute capability. Empty for a GPU without tensor cores, and if no other GPU was measured with
/// that arithmetic. `calibrations` has one entry per GPU.
[[nodiscard]] std::string_view other_arithmetic(const CalibratedGpu& gpu,
                                                std::span<const CalibratedGpu> gpus,
                                                std::span<const profile::Calibration> calibrations);

}  // namespace gpemu::calibrate
