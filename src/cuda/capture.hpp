// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "gpemu/base/mutex.hpp"
#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/kernels/kernel_effect.hpp"
#include "gpemu/process/status.hpp"
#include "gpemu/streams/event_state.hpp"
#include "gpemu/streams/stream_state.hpp"

#include "graph.hpp"

namespace gpemu::cuda {

/// cudaStreamCaptureModeRelaxed, the last of the modes.
inline constexpr std::int32_t kRelaxedCapture = 2;

/// Returns whether the stream is capturing; then work goes to capture() and not to the device.
[[nodiscard]] inline bool capturing(const gpemu_cuda_stream& stream) {
  return stream.capture_id.load(std::memory_order_relaxed) != 0;
}

/// Adds a node to the graph that a stream captures.
[[nodiscard]] process::Status capture(gpemu_cuda_stream& stream,
                                      const gpemu_cuda_node_parameters& node);

/// Errors: STREAM_CAPTURE_UNSUPPORTED if the thread may not make unsafe calls (cudaMalloc,
/// cudaEventQuery) because of a capture in global or thread-local mode; the capture is then
/// invalidated.
[[nodiscard]] process::Status check_unsafe_call();

/// The same for waiting on a device, which captures on other devices do not forbid. Source:
/// github.com/ROCm/rocm-systems/pull/4508, measured on two NVIDIA GPUs.
[[nodiscard]] process::Status check_wait(const process::DeviceState& device);

/// Errors: STREAM_CAPTURE_UNSUPPORTED if a stream of the device captures, in whichever mode and
/// thread; the captures are then invalidated. Source: CUDA C++ Programming Guide, "Prohibited and
/// Unhandled Operations", on handles that encompass a capture.
[[nodiscard]] process::Status refuse_captures_on(const process::DeviceState& device);

/// Errors: STREAM_CAPTURE_IMPLICIT if the stream is a legacy default stream that would have to wait
/// for a stream that captures; on request, that capture is invalidated.
[[nodiscard]] process::Status check_legacy_stream(const gpemu_cuda_stream& stream, bool invalidate);

/// Adds a priced operation to the graph that a stream captures.
[[nodiscard]] process::Status capture_operation(gpemu_cuda_stream& stream,
                                                const cost::OperationCost& cost,
                                                const gpemu_operation& operation);

/// Refuses what cannot be done with a stream or an event during its capture, e.g. waiting for it or
/// querying it. Errors: STREAM_CAPTURE_UNSUPPORTED for a stream that captures, CAPTURED_EVENT for
/// an event that was recorded in a capture; the capture is then invalidated.
[[nodiscard]] process::Status refuse_captured(gpemu_cuda_stream& stream);
[[nodiscard]] process::Status refuse_captured(const gpemu_cuda_event& event);

/// Makes an event stand for the captured work of a stream or, with the flag for external use, adds
/// a node that records it.
[[nodiscard]] process::Status capture_record(gpemu_cuda_event& event, gpemu_cuda_stream& stream,
                                             std::uint32_t flags);

/// Takes an event out of its capture, because it was recorded outside of captures.
void forget_capture(gpemu_cuda_event& event) GPEMU_EXCLUDES(graph_mutex());

/// Makes a stream wait for an event if one of them belongs to a capture: the stream joins it.
/// Errors: STREAM_CAPTURE_ISOLATION, _MERGE, _IMPLICIT, _INVALIDATED, CAPTURED_EVENT.
[[nodiscard]] process::Status capture_wait(gpemu_cuda_stream& stream, gpemu_cuda_event& event,
                                           std::uint32_t flags);

/// Ends or invalidates the capture of a stream that is destroyed.
void leave_capture(gpemu_cuda_stream& stream);

/// Performs work on memory for a stream: at once, in the order of calls, or, if the stream
/// captures, at each launch of its graph. Errors: those of capture.
[[nodiscard]] process::Status perform_on(gpemu_cuda_stream& stream, kernels::KernelWork work);

/// Adds a kernel's node to the graph that a stream captures: each launch calls `queue` with the
/// stream of the node's work. Errors: those of capture.
[[nodiscard]] process::Status capture_call(
    gpemu_cuda_stream& stream, std::function<process::Status(gpemu_cuda_stream&)> queue);

/// Makes a stream capture, into a graph of the program or, for NULL, into a new one. Errors:
/// INVALID_VALUE, INVALID_HANDLE, ILLEGAL_STATE, STREAM_CAPTURE_UNSUPPORTED, OUT_OF_MEMORY.
[[nodiscard]] process::Status begin_capture(gpemu_cuda_stream& stream, std::int32_t mode,
                                            gpemu_cuda_graph_handle graph);

/// Ends a capture and yields its graph, or null. Errors: ILLEGAL_STATE, STREAM_CAPTURE_INVALIDATED,
/// _UNMATCHED, _UNJOINED, _WRONG_THREAD.
[[nodiscard]] process::Status end_capture(gpemu_cuda_stream& stream, gpemu_cuda_graph** graph);

/// Describes a stream's capture. Errors: those of check_legacy_stream.
[[nodiscard]] process::Status describe_capture(gpemu_cuda_stream& stream,
                                               gpemu_cuda_capture_info* info);

/// Sets or adds dependencies of a stream's next node. Errors: ILLEGAL_STATE, INVALID_VALUE,
/// STREAM_CAPTURE_INVALIDATED.
[[nodiscard]] process::Status set_capture_dependencies(gpemu_cuda_stream& stream,
                                                       const gpemu_cuda_node_handle* dependencies,
                                                       std::size_t count, bool add);

/// Exchanges the calling thread's mode.
void exchange_capture_mode(std::int32_t* mode);

}  // namespace gpemu::cuda
