// SPDX-License-Identifier: Apache-2.0
#include "synchronize.hpp"

#include "attach.hpp"
#include "event_state.hpp"
#include "host_functions.hpp"
#include "pool.hpp"
#include "recorder.hpp"
#include "waits.hpp"

namespace gpemu::cuda {

void synchronize(DeviceState& device) {
  const TimePoint before = clock().now();
  device.device->synchronize();
  wait_for_moves(clock().now());
  record_wait(clock().now() - before);
  wait_for_host_functions(device);
  trim_pools();
}

void synchronize(gpemu_cuda_stream& stream) {
  wait_until(stream.stream->tail());
  wait_for_host_functions(stream);
  trim_pools();
}

void synchronize(const gpemu_cuda_event& event) {
  if (event.current().recorded()) wait_until(event.current().moment());
  wait_for_host_functions(event.host_calls);
  trim_pools();
}

}  // namespace gpemu::cuda
