// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/device_config.hpp"

namespace gpemu::device {

DeviceConfig device_config(const profile::GpuSpec& spec) {
  return {.gpu = spec.name,
          .memory_bytes = spec.memory_bytes,
          .max_power_w = spec.max_power_w,
          .idle_power_w = spec.idle_power_w.value_or(0)};
}

}  // namespace gpemu::device
