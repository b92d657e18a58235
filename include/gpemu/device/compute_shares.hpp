// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/node_state.hpp"

namespace gpemu::device {

/// Which part of each device's compute time this process gets, as its environment says
/// (docs/reference/environment.md): GPEMU_GPU_SHARE, GPEMU_GPU_LIMIT, and the variables that HAMi
/// sets in containers; and whose share it is (GPEMU_TENANT).
class ComputeShares {
 public:
  /// Errors: kInvalidArgument for a value that is no fraction or no percentage, and for several
  /// that say how much at once, naming the variables.
  [[nodiscard]] static Result<ComputeShares> read(const Lookup& lookup);

  /// Returns the share of a device. `index`: of the device among those that the process could see
  /// (GPEMU_DEVICES), without regard to CUDA_VISIBLE_DEVICES.
  [[nodiscard]] ComputeShare of(int index) const;
  /// Returns whether it has a share of any device, so that these must be shared by time slices.
  [[nodiscard]] bool any() const;

 private:
  ComputeShare of_all_;
  /// By index, of wholes; 0: that of all. Percentages that HAMi sets are caps.
  std::vector<std::uint32_t> of_device_;
};

}  // namespace gpemu::device
