// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/streams/event_state.hpp"
#include "gpemu/streams/stream_state.hpp"

namespace gpemu::cuda {

/// Blocks until all work and all host functions of this process are done on a device, in a stream,
/// or before an event. Then frees idle memory of pools.
void synchronize(process::DeviceState& device);
void synchronize(gpemu_cuda_stream& stream);
void synchronize(const gpemu_cuda_event& event);

}  // namespace gpemu::cuda
