// SPDX-License-Identifier: Apache-2.0
#include "cuda.hpp"
#include "cuda_stream.hpp"

namespace {

/// Yields one property of a stream.
template <typename Out, typename Part>
int get_part(Stream stream, Out* out, Part part) {
  return in_context([=] {
    gpemu_cuda_stream_info info{};
    const int status = out == nullptr ? kInvalidValue : gpemu_cuda_stream_get_info(stream, &info);
    return put_result(status, out, part(info));
  });
}

}  // namespace

GPEMU_SHIM_EXPORT int cuStreamCreate(Stream* stream, unsigned flags) {
  return in_context([=] { return create_stream(stream, flags, 0); });
}

GPEMU_SHIM_EXPORT int cuStreamCreateWithPriority(Stream* stream, unsigned flags, int priority) {
  return in_context([=] { return create_stream(stream, flags, priority); });
}

GPEMU_SHIM_EXPORT int cuStreamDestroy(Stream stream) {
  return in_context([=] { return gpemu_cuda_stream_destroy(stream); });
}

GPEMU_SHIM_EXPORT int cuStreamDestroy_v2(Stream stream) {
  return cuStreamDestroy(stream);
}

GPEMU_TWINS(cuStreamSynchronize, _ptsz, (Stream stream),
            return in_context([=] { return gpemu_cuda_stream_synchronize(on(stream)); });)

GPEMU_TWINS(cuStreamQuery, _ptsz, (Stream stream),
            return in_context([=] { return gpemu_cuda_stream_query(on(stream)); });)

GPEMU_TWINS(cuStreamWaitEvent, _ptsz, (Stream stream, Event event, unsigned flags),
            return in_context([=] {
              return (flags & ~kAllWaitFlags) != 0
                         ? kInvalidValue
                         : gpemu_cuda_stream_wait_event(on(stream), event, flags);
            });)

GPEMU_TWINS(cuStreamGetPriority, _ptsz, (Stream stream, int* priority),
            return get_part(on(stream), priority,
                            [](const gpemu_cuda_stream_info& info) { return info.priority; });)

GPEMU_TWINS(cuStreamGetFlags, _ptsz, (Stream stream, unsigned* flags),
            return get_part(on(stream), flags,
                            [](const gpemu_cuda_stream_info& info) { return info.flags; });)

GPEMU_TWINS(cuStreamGetId, _ptsz, (Stream stream, unsigned long long* id),
            return get_part(on(stream), id,
                            [](const gpemu_cuda_stream_info& info) { return info.id; });)

GPEMU_TWINS(cuStreamGetDevice, _ptsz, (Stream stream, Device* device),
            return get_part(on(stream), device,
                            [](const gpemu_cuda_stream_info& info) { return info.device; });)

GPEMU_TWINS(cuStreamGetCtx, _ptsz, (Stream stream, Context* context),
            return get_part(on(stream), context, [](const gpemu_cuda_stream_info& info) {
              return context_of(info.device);
            });)

// A stream of a green context has none of ours; all others have no green context.
GPEMU_TWINS(
    cuStreamGetCtx_v2, _ptsz, (Stream stream, Context* context, void** green),
    const int status = get_part(on(stream), context,
                                [](const gpemu_cuda_stream_info& info) {
                                  return context_of(info.device);
                                });
    if (status == kSuccess && green != nullptr) { *green = nullptr; } return status;)

GPEMU_TWINS(cuStreamGetAttribute, _ptsz, (Stream stream, int attribute, int* value),
            return attribute != kLaunchPriority
                       ? not_supported("cuStreamGetAttribute of attributes other than the priority")
                       : get_part(on(stream), value, [](const gpemu_cuda_stream_info& info) {
                           return info.priority;
                         });)

GPEMU_TWINS(cuStreamAddCallback, _ptsz,
            (Stream stream, StreamCallback function, void* data, unsigned flags),
            return in_context([=] { return add_callback(on(stream), function, data, flags); });)

GPEMU_TWINS(cuLaunchHostFunc, _ptsz, (Stream stream, void (*function)(void*), void* data),
            return in_context([=] { return call_on_host(on(stream), function, data); });)

// How the device waits for the function (the last argument) is gpemu's choice.
GPEMU_TWINS(cuLaunchHostFunc_v2, _ptsz,
            (Stream stream, void (*function)(void*), void* data, unsigned mode),
            return in_context([=] {
              return mode > kLastHostWait ? kInvalidValue
                                          : call_on_host(on(stream), function, data);
            });)

// ---- Events ----

GPEMU_SHIM_EXPORT int cuEventCreate(Event* event, unsigned flags) {
  return in_context([=] { return create_event(event, flags); });
}

GPEMU_SHIM_EXPORT int cuEventDestroy(Event event) {
  return in_context([=] { return gpemu_cuda_event_destroy(event); });
}

GPEMU_SHIM_EXPORT int cuEventDestroy_v2(Event event) {
  return cuEventDestroy(event);
}

GPEMU_SHIM_EXPORT int cuEventQuery(Event event) {
  return in_context([=] { return gpemu_cuda_event_query(event); });
}

GPEMU_SHIM_EXPORT int cuEventSynchronize(Event event) {
  return in_context([=] { return gpemu_cuda_event_synchronize(event); });
}

GPEMU_SHIM_EXPORT int cuEventElapsedTime(float* milliseconds, Event start, Event end) {
  return in_context([=] { return get_elapsed_time(milliseconds, start, end); });
}

GPEMU_SHIM_EXPORT int cuEventElapsedTime_v2(float* milliseconds, Event start, Event end) {
  return in_context([=] { return get_elapsed_time(milliseconds, start, end); });
}

GPEMU_TWINS(cuEventRecord, _ptsz, (Event event, Stream stream),
            return in_context([=] { return record_event(event, on(stream), 0); });)

GPEMU_TWINS(cuEventRecordWithFlags, _ptsz, (Event event, Stream stream, unsigned flags),
            return in_context([=] { return record_event(event, on(stream), flags); });)
