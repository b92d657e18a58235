// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::profile {

/// Returns the rate of one NVLink of a GPU, in bytes per second and direction. 0
/// without NVLink.
[[nodiscard]] double nvlink_rate(const GpuSpec& gpu);

/// Returns how many NVLinks make up a GPU's bandwidth; 0 without NVLink.
[[nodiscard]] int nvlinks_of(const GpuSpec& gpu);

}  // namespace gpemu::profile
