// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/process/status.hpp"
#include "gpemu/streams/stream_state.hpp"

namespace gpemu::cuda {

/// Yields a live stream for a handle; understands NULL, 1 and 2. Errors: INVALID_HANDLE, and those
/// of current_device.
[[nodiscard]] process::Status resolve(gpemu_cuda_stream_handle handle, gpemu_cuda_stream** stream);

/// Like resolve, for calls that give the stream work or wait for it. Errors: those of resolve,
/// STREAM_CAPTURE_IMPLICIT.
[[nodiscard]] process::Status resolve_for_work(gpemu_cuda_stream_handle handle,
                                               gpemu_cuda_stream** stream);

/// Ends a stream; its queued work still runs. Requires: it is not a default stream.
void destroy_stream(gpemu_cuda_stream& stream);

/// Queues a copy between two devices.
device::QueuedWork enqueue_peer_copy(gpemu_cuda_stream& stream, Bytes bytes, Duration duration);

/// Queues work of known duration; `name` goes to trace and report and must stay valid.
device::QueuedWork enqueue(gpemu_cuda_stream& stream, device::Engine engine, Bytes bytes,
                           Duration duration, const char* name);

/// Queues an operation on a stream that is not capturing.
void queue_operation(const cost::OperationCost& cost, const gpemu_operation& operation,
                     gpemu_cuda_stream& stream);

/// Queues an operation, or captures it. Errors: those of capture.
[[nodiscard]] process::Status run_operation(const cost::OperationCost& cost,
                                            const gpemu_operation& operation,
                                            gpemu_cuda_stream& stream);

/// Queues a call of a function of the program. Errors: OPERATING_SYSTEM if no thread can be started
/// for it.
[[nodiscard]] process::Status run_host_function(void (*function)(void*), void* data,
                                                gpemu_cuda_stream& stream);

}  // namespace gpemu::cuda
