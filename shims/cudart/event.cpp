// SPDX-License-Identifier: Apache-2.0
#include "cuda_stream.hpp"
#include "cudart.hpp"

GPEMU_SHIM_EXPORT int cudaEventCreate(Event* event) {
  return in_context([=] { return create_event(event, 0); });
}

GPEMU_SHIM_EXPORT int cudaEventCreateWithFlags(Event* event, unsigned flags) {
  return in_context([=] { return create_event(event, flags); });
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
  return in_context([=] { return get_elapsed_time(milliseconds, start, end); });
}

#if GPEMU_CUDA_MAJOR < 13
GPEMU_SHIM_EXPORT int cudaEventElapsedTime_v2(float* milliseconds, Event start, Event end) {
  return in_context([=] { return get_elapsed_time(milliseconds, start, end); });
}
#endif

GPEMU_TWINS(cudaEventRecord, _ptsz, (Event event, Stream stream),
            return in_context([=] { return record_event(event, on(stream), 0); });)

GPEMU_TWINS(cudaEventRecordWithFlags, _ptsz, (Event event, Stream stream, unsigned flags),
            return in_context([=] { return record_event(event, on(stream), flags); });)

GPEMU_SHIM_EXPORT int cudaIpcGetEventHandle(gpemu_cuda_ipc* handle, Event event) {
  return in_context([=] {
    return handle == nullptr ? kInvalidValue : gpemu_cuda_ipc_export_event(event, handle);
  });
}

GPEMU_SHIM_EXPORT int cudaIpcOpenEventHandle(Event* event, gpemu_cuda_ipc handle) {
  return in_context(
      [&] { return event == nullptr ? kInvalidValue : gpemu_cuda_ipc_open_event(&handle, event); });
}
