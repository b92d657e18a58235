// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/cost/operation_cost.hpp"

#include "machine.hpp"

namespace gpemu::cuda {

/// Work that a device was given, for the report of the run.
struct RecordedWork {
  const DeviceState* device = nullptr;
  std::uint64_t stream_id = 0;
  device::Interval interval;
  cost::OperationClass operation_class = cost::OperationClass::kOther;
  cost::Evidence evidence = cost::Evidence::kAnalytic;
  const char* name = "";  ///< copied.
  Bytes bytes = 0;
};

/// Opens the files that GPEMU_RECORD_DIR asks for; they are written when the process ends. Called
/// once, when the process attaches.
void start_recorder();

/// Counts work, and keeps it for the trace if there is to be one. Thread safety: any thread.
void record(const RecordedWork& work);

/// Counts time that a thread of the program spent waiting for a device.
void record_wait(Duration time);

/// Counts bytes that the program read though they were not kept, and tells it once.
void record_not_kept(Bytes bytes);

}  // namespace gpemu::cuda
