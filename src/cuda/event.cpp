// SPDX-License-Identifier: Apache-2.0
#include "event.hpp"

#include "gpemu/process/recorder.hpp"
#include "gpemu/streams/host_functions.hpp"
#include "gpemu/streams/stream_state.hpp"
#include "gpemu/streams/waits.hpp"

#include "capture.hpp"

namespace gpemu::cuda {
namespace {

constexpr std::uint32_t kDisableTiming = 2;

/// Source: CUDA C++ Programming Guide, "Multi-Device System": events are recorded in streams of
/// their device and timed against its events; any event can be waited for.
bool are_apart(const process::DeviceState* a, const process::DeviceState* b) {
  return a != nullptr && b != nullptr && a != b;
}

}  // namespace

process::Status wait_for_event(gpemu_cuda_stream& stream, gpemu_cuda_event& event,
                               std::uint32_t flags) {
  if (capturing(stream) || event.capture_id != 0) return capture_wait(stream, event, flags);
  stream.stream->wait(event.current());
  process::record_event_use(event, stream.id, true);
  streams::follow(stream, &event.host_calls);
  return GPEMU_CUDA_SUCCESS;
}

process::Status record_event(gpemu_cuda_event& event, gpemu_cuda_stream& stream,
                             std::uint32_t flags) {
  if (are_apart(event.device, stream.device)) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (capturing(stream)) return capture_record(event, stream, flags);
  forget_capture(event);
  stream.stream->record(event.event);
  process::record_event_use(event, stream.id, false);
  streams::follow(stream);
  streams::copy_host_calls(stream, event.host_calls);
  event.publish();
  return GPEMU_CUDA_SUCCESS;
}

process::Status time_between(const gpemu_cuda_event& start, const gpemu_cuda_event& end,
                             Duration* elapsed) {
  if (are_apart(start.device, end.device)) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  GPEMU_CUDA_TRY(refuse_captured(start));
  GPEMU_CUDA_TRY(refuse_captured(end));
  if (!start.current().recorded() || !end.current().recorded() ||
      ((start.flags | end.flags) & kDisableTiming) != 0) {
    return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  }
  const device::Moment first = start.current().moment();
  const device::Moment last = end.current().moment();
  if (!streams::is_over(first) || !streams::is_over(last)) return GPEMU_CUDA_ERROR_NOT_READY;
  *elapsed = last.time() - first.time();
  return GPEMU_CUDA_SUCCESS;
}

process::Status wait_in_graph(gpemu_cuda_event_handle event, gpemu_cuda_stream& stream) {
  const gpemu_cuda_event* const found = streams::find_event(event);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  stream.stream->wait(found->current());
  streams::follow(stream, &found->host_calls);
  return GPEMU_CUDA_SUCCESS;
}

process::Status record_in_graph(gpemu_cuda_event_handle event, gpemu_cuda_stream& stream) {
  gpemu_cuda_event* const found = streams::find_event(event);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  stream.stream->record(found->event);
  streams::copy_host_calls(stream, found->host_calls);
  found->publish();
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::cuda
