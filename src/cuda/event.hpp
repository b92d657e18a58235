// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/process/status.hpp"
#include "gpemu/streams/event_state.hpp"

namespace gpemu::cuda {

/// Makes a stream wait for an event, or captures that. Errors: those of capture_wait.
[[nodiscard]] process::Status wait_for_event(gpemu_cuda_stream& stream, gpemu_cuda_event& event,
                                             std::uint32_t flags);

/// Records an event in a stream, or captures that. Errors: INVALID_HANDLE for one of another
/// device, those of capture_record.
[[nodiscard]] process::Status record_event(gpemu_cuda_event& event, gpemu_cuda_stream& stream,
                                           std::uint32_t flags);

/// Yields the time from one event to another. Errors: INVALID_HANDLE, NOT_READY, CAPTURED_EVENT.
[[nodiscard]] process::Status time_between(const gpemu_cuda_event& start,
                                           const gpemu_cuda_event& end, Duration* elapsed);

/// The actions of graph nodes on events. The caller then takes the recorded event out of its
/// capture, without the locks of the launch. Errors: INVALID_HANDLE.
[[nodiscard]] process::Status wait_in_graph(gpemu_cuda_event_handle event,
                                            gpemu_cuda_stream& stream);
[[nodiscard]] process::Status record_in_graph(gpemu_cuda_event_handle event,
                                              gpemu_cuda_stream& stream);

}  // namespace gpemu::cuda
