// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/device/node.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::device {

/// Returns the configuration of an emulated device of the kind that `spec` describes.
[[nodiscard]] DeviceConfig device_config(const profile::GpuSpec& spec);

}  // namespace gpemu::device
