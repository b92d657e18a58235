// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/base/units.hpp"
#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/device/interval.hpp"
#include "gpemu/process/device_state.hpp"

namespace gpemu::process {

/// Work of a device, for the report of the run.
struct RecordedWork {
  const DeviceState* device = nullptr;
  std::uint64_t stream_id = 0;
  device::QueuedWork queued;
  kernels::OperationClass operation_class = kernels::OperationClass::kOther;
  cost::Evidence evidence = cost::Evidence::kAnalytic;
  const char* name = "";  ///< copied.
  Bytes bytes = 0;
  const gpemu_operation* operation = nullptr;  ///< null for copies over links; copied.
};

/// A collective that a rank asks for, for the report of the run.
struct RecordedCollective {
  const DeviceState* device = nullptr;
  std::uint64_t stream_id = 0;  ///< the program's stream.
  const char* name = "";        ///< of NCCL's function; stays.
  const char* type = "";        ///< of an element; stays.
  Bytes bytes = 0;              ///< nccl-tests' size: that of the larger buffer.
  double bus_factor = 1;        ///< nccl-tests' bus bandwidth divided by bytes / time.
  std::int32_t rank = 0;
  std::int32_t ranks = 1;
  std::int32_t peer = -1;          ///< the other rank of a send or receive.
  std::uint64_t communicator = 0;  ///< the same for all ranks, as is the number.
  std::uint64_t number = 0;        ///< counts the communicator's collectives.
  TimePoint asked{};
};

}  // namespace gpemu::process
