// SPDX-License-Identifier: Apache-2.0
#include "synchronize.hpp"

#include "gpemu/process/attach.hpp"
#include "gpemu/process/faults.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/streams/event_state.hpp"
#include "gpemu/streams/host_functions.hpp"
#include "gpemu/streams/waits.hpp"

#include "pool.hpp"

namespace gpemu::cuda {

void synchronize(process::DeviceState& device) {
  const TimePoint before = process::clock().now();
  for (const device::Moment& end : device.device->ends()) process::wait_on_device(end, &device);
  streams::wait_for_moves(process::clock().now());
  process::record_wait(process::clock().now() - before);
  if (process::is_lost(device)) return;
  streams::wait_for_host_functions(device);
  trim_pools();
}

void synchronize(gpemu_cuda_stream& stream) {
  streams::wait_until(stream.stream->tail(), stream.device);
  if (process::is_lost(*stream.device)) return;
  streams::wait_for_host_functions(stream);
  trim_pools();
}

void synchronize(const gpemu_cuda_event& event) {
  if (event.current().recorded()) streams::wait_until(event.current().moment(), event.device);
  if (event.device != nullptr && process::is_lost(*event.device)) return;
  streams::wait_for_host_functions(event.host_calls);
  trim_pools();
}

}  // namespace gpemu::cuda
