// SPDX-License-Identifier: Apache-2.0
#include "fatal.hpp"

#include "gpemu/process/process.hpp"

namespace gpemu::process {

bool end_one_context(DeviceState& device, Status status) {
  Status none = GPEMU_CUDA_SUCCESS;
  if (!device.fatal.compare_exchange_strong(none, status)) return false;
  if (device.active.load(std::memory_order_acquire)) device.device->abandon();
  return true;
}

bool end_all_contexts(Status status) {
  bool is_first = false;
  for (const auto& device : process().devices) {
    is_first = end_one_context(*device, status) || is_first;
  }
  return is_first;
}

}  // namespace gpemu::process
