// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/host_times.hpp"

#include <algorithm>

namespace gpemu::cost {

HostTimes::HostTimes(const profile::GpuSpec& gpu) {
  std::ranges::transform(profile::kOperationParameters, parameters_.begin(),
                         &profile::Parameter::typical);
  if (!gpu.calibration) return;
  parameters_ = gpu.calibration->parameters;
  listed_tensor_ = gpu.calibration->listed_tensor;
}

std::optional<double> HostTimes::listed_launch(const ListedTensors& listed) const {
  if (!listed_tensor_ || listed.tensors() == 0) return std::nullopt;
  return *listed_tensor_ * static_cast<double>(listed.tensors()) /
         static_cast<double>(listed.launches());
}

}  // namespace gpemu::cost
