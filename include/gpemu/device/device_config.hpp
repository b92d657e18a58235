// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/units.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::device {

/// The device memory that a CUDA context takes on GPUs before Hopper. Source: 300 to 500 MB are
/// commonly reported for PyTorch on Volta to Ampere, since CUDA 11.7 loads kernels when they are
/// needed.
inline constexpr Bytes kContextBytes = 400 * kMiB;

/// Returns the device memory that a CUDA context takes with its first kernels, unless
/// GPEMU_CONTEXT_MIB says otherwise.
[[nodiscard]] Bytes context_bytes(const profile::GpuSpec& spec);

/// Returns the configuration of an emulated device of the kind that `spec` describes.
[[nodiscard]] DeviceConfig device_config(const profile::GpuSpec& spec);

}  // namespace gpemu::device
