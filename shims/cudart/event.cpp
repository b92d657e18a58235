// SPDX-License-Identifier: Apache-2.0
#include "cudart.hpp"

namespace {

constexpr unsigned kAllFlags = 7;  // blocking, no timing, between processes
constexpr double kNanosecondsPerMillisecond = 1e6;

int create(Event* event, unsigned flags) {
  return in_context([=] {
    return event == nullptr || (flags & ~kAllFlags) != 0 ? kInvalidValue
                                                         : gpemu_cuda_event_create(flags, event);
  });
}

int elapsed_time(float* milliseconds, Event start, Event end) {
  return in_context([=] {
    int64_t elapsed = 0;
    const int status =
        milliseconds == nullptr ? kInvalidValue : gpemu_cuda_event_elapsed(start, end, &elapsed);
    if (status == kSuccess) {
      *milliseconds = static_cast<float>(static_cast<double>(elapsed) / kNanosecondsPerMillisecond);
    }
    return status;
  });
}

int event_record(Event event, Stream stream, unsigned flags) {
  return in_context(
      [=] { return flags > 1 ? kInvalidValue : gpemu_cuda_event_record(event, stream, flags); });
}

}  // namespace

GPEMU_SHIM_EXPORT int cudaEventCreate(Event* event) {
  return create(event, 0);
}

GPEMU_SHIM_EXPORT int cudaEventCreateWithFlags(Event* event, unsigned flags) {
  return create(event, flags);
}

GPEMU_SHIM_EXPORT int cudaEventDestroy(Event event) {
  return in_context([=] { return gpemu_cuda_event_destroy(event); });
}

GPEMU_SHIM_EXPORT int cudaEventQuery(Event event) {
  return in_context([=] { return gpemu_cuda_event_query(event); });
}

GPEMU_SHIM_EXPORT int cudaEventSynchronize(Event event) {
  return in_context([=] { return gpemu_cuda_event_synchronize(event); });
}

GPEMU_SHIM_EXPORT int cudaEventElapsedTime(float* milliseconds, Event start, Event end) {
  return elapsed_time(milliseconds, start, end);
}

#if GPEMU_CUDA_MAJOR == 12
GPEMU_SHIM_EXPORT int cudaEventElapsedTime_v2(float* milliseconds, Event start, Event end) {
  return elapsed_time(milliseconds, start, end);
}
#endif

GPEMU_TWINS(cudaEventRecord, _ptsz, (Event event, Stream stream),
            return event_record(event, on(stream), 0);)

GPEMU_TWINS(cudaEventRecordWithFlags, _ptsz, (Event event, Stream stream, unsigned flags),
            return event_record(event, on(stream), flags);)

GPEMU_SHIM_EXPORT int cudaIpcGetEventHandle(gpemu_cuda_ipc* handle, Event event) {
  return in_context([=] {
    return handle == nullptr ? kInvalidValue : gpemu_cuda_ipc_export_event(event, handle);
  });
}

GPEMU_SHIM_EXPORT int cudaIpcOpenEventHandle(Event* event, gpemu_cuda_ipc handle) {
  return in_context(
      [&] { return event == nullptr ? kInvalidValue : gpemu_cuda_ipc_open_event(&handle, event); });
}
