// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/cuda.h"
#include "gpemu/device/node.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::process {

/// Returns the properties that CUDA reports for a device of a node. Logs a warning if the limits of
/// its compute capability are not known, and gives it those of the one before.
[[nodiscard]] gpemu_cuda_device describe_device(const profile::GpuSpec& spec,
                                                const device::DeviceSnapshot& snapshot);

}  // namespace gpemu::process
