// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/base/error.hpp"
#include "gpemu/step/step_parts.hpp"

#include "priced_recording.hpp"

namespace gpemu::step {

/// Divides a step with `batch` samples into its parts. Backward pass and optimizer take `backward`
/// together, of which each part takes its share. `parameters`: of the model.
///
/// Errors: kUnsupported if the gradients of the recording are not those of the parameters.
[[nodiscard]] Result<StepParts> divided_step(const PricedRecording& recorded, int batch,
                                             Duration backward, std::uint64_t parameters);

/// Returns how long the layers at the network's end take with `batch` samples.
[[nodiscard]] HeadTime head_time(const PricedRecording& recorded, int batch);

}  // namespace gpemu::step
