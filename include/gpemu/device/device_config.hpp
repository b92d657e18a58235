// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/units.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::device {

/// Returns the device memory that a CUDA context takes with its first kernels, unless
/// GPEMU_CONTEXT_MIB says otherwise.
[[nodiscard]] Bytes context_bytes(const profile::GpuSpec& spec);

/// Returns how a GPU divides its time among processes.
[[nodiscard]] TimeSliceRules time_slices(const profile::GpuSpec& spec);

/// Returns the configuration of an emulated device of the kind that `spec` describes.
[[nodiscard]] DeviceConfig device_config(const profile::GpuSpec& spec);

}  // namespace gpemu::device
