// SPDX-License-Identifier: Apache-2.0
#include "gpemu/streams/waits.hpp"

#include "gpemu/process/attach.hpp"
#include "gpemu/process/faults.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/streams/host_calls.hpp"

namespace gpemu::streams {

void wait_for_moves(TimePoint time) {
  if (!mover().busy() || in_host_function) return;
  const TimePoint before = process::clock().now();
  mover().wait_until(time);
  process::record_late_wait(process::clock().now() - before);
}

void wait_for_moves_on(std::span<const Access> accesses) {
  if (!in_host_function) mover().wait_for(accesses);
}

void wait_until(const device::Moment& moment, const process::DeviceState* device) {
  const TimePoint before = process::clock().now();
  process::wait_on_device(moment, device);
  const bool has_come =
      device == nullptr || !device->has_faults || moment.is_over(process::clock().now());
  if (has_come) wait_for_moves(moment.time());
  process::record_wait(process::clock().now() - before);
}

bool is_over(const device::Moment& moment) {
  return moment.is_over(process::clock().now()) && mover().is_done_until(moment.time());
}

}  // namespace gpemu::streams
