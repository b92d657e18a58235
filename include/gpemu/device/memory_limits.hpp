// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/node_state.hpp"

namespace gpemu::device {

/// How much of each device's memory this process may hold, as its environment says
/// (docs/reference/environment.md): GPEMU_GPU_FRACTION, and the variables that HAMi sets in
/// containers.
class MemoryLimits {
 public:
  /// Errors: kInvalidArgument for a value that is no fraction or no size, naming the variable.
  [[nodiscard]] static Result<MemoryLimits> read(const Lookup& lookup);

  /// Returns the limit on a device that has `total`: the smallest of all; nothing without any.
  /// `index`: of the device among those that the process could see (GPEMU_DEVICES), without regard
  /// to CUDA_VISIBLE_DEVICES.
  [[nodiscard]] std::optional<Bytes> limit(int index, Bytes total) const;

  /// Reduces what is known of a device to what this process sees of it, through NVML or nvidia-smi:
  /// only processes whose pids are valid here, as in a container on a real GPU. With a limit, as
  /// HAMi shows it there, the limit is all the memory, nothing of it is reserved, and only these
  /// processes use it; else, the memory of all counts. `index`: as of limit().
  void apply(int index, DeviceSnapshot& device) const;

 private:
  std::optional<double> fraction_;
  std::optional<Bytes> of_all_;
  std::vector<std::optional<Bytes>> of_device_;  ///< by index.
};

}  // namespace gpemu::device
