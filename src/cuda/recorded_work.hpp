// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/device/interval.hpp"

#include "device_state.hpp"

namespace gpemu::cuda {

/// Work of a device, for the report of the run.
struct RecordedWork {
  const DeviceState* device = nullptr;
  std::uint64_t stream_id = 0;
  device::Interval interval;
  cost::OperationClass operation_class = cost::OperationClass::kOther;
  cost::Evidence evidence = cost::Evidence::kAnalytic;
  const char* name = "";  ///< copied.
  Bytes bytes = 0;
  const gpemu_operation* operation = nullptr;  ///< null for copies over links; copied.
};

}  // namespace gpemu::cuda
