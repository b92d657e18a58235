// SPDX-License-Identifier: Apache-2.0
#include "waits.hpp"

#include "attach.hpp"
#include "faults.hpp"
#include "host_calls.hpp"
#include "recorder.hpp"

namespace gpemu::cuda {

void wait_for_moves(TimePoint time) {
  if (!mover().busy() || in_host_function) return;
  const TimePoint before = clock().now();
  mover().wait_until(time);
  record_late_wait(clock().now() - before);
}

void wait_for_moves_on(std::span<const Access> accesses) {
  if (!in_host_function) mover().wait_for(accesses);
}

void wait_until(const device::Moment& moment, const DeviceState* device) {
  const TimePoint before = clock().now();
  wait_on_device(moment, device);
  const bool has_come = device == nullptr || !device->has_faults || moment.is_over(clock().now());
  if (has_come) wait_for_moves(moment.time());
  record_wait(clock().now() - before);
}

bool is_over(const device::Moment& moment) {
  return moment.is_over(clock().now()) && mover().is_done_until(moment.time());
}

}  // namespace gpemu::cuda
