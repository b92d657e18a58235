// SPDX-License-Identifier: Apache-2.0
#include "cuda_memory.hpp"
#include "cuda_stream.hpp"
#include "cudart.hpp"

namespace {

int get_info(Stream stream, gpemu_cuda_stream_info* info) {
  return gpemu_cuda_stream_get_info(stream, info);
}

/// Yields one property of a stream.
template <typename Out, typename Part>
int get_part(Stream stream, Out* out, Part part) {
  return in_context([=] {
    if (out == nullptr) {
      return kInvalidValue;
    }
    gpemu_cuda_stream_info info{};
    const int status = get_info(stream, &info);
    if (status == kSuccess) {
      *out = static_cast<Out>(part(info));
    }
    return status;
  });
}

int get_attribute(Stream stream, int attribute, int* value) {
  if (attribute != kLaunchPriority) {
    return not_supported("cudaStreamGetAttribute");
  }
  return get_part(stream, value, [](const gpemu_cuda_stream_info& info) { return info.priority; });
}

int set_attribute(const void* value) {
  return value == nullptr ? record(kInvalidValue) : not_supported("cudaStreamSetAttribute");
}

}  // namespace

GPEMU_SHIM_EXPORT int cudaStreamCreate(Stream* stream) {
  return in_context([=] { return create_stream(stream, 0, 0); });
}

GPEMU_SHIM_EXPORT int cudaStreamCreateWithFlags(Stream* stream, unsigned flags) {
  return in_context([=] { return create_stream(stream, flags, 0); });
}

GPEMU_SHIM_EXPORT int cudaStreamCreateWithPriority(Stream* stream, unsigned flags, int priority) {
  return in_context([=] { return create_stream(stream, flags, priority); });
}

GPEMU_SHIM_EXPORT int cudaStreamDestroy(Stream stream) {
  return in_context([=] { return gpemu_cuda_stream_destroy(stream); });
}

GPEMU_TWINS(cudaStreamSynchronize, _ptsz, (Stream stream),
            return in_context([=] { return gpemu_cuda_stream_synchronize(on(stream)); });)

GPEMU_TWINS(cudaStreamQuery, _ptsz, (Stream stream),
            return in_context([=] { return gpemu_cuda_stream_query(on(stream)); });)

GPEMU_TWINS(cudaStreamWaitEvent, _ptsz, (Stream stream, Event event, unsigned flags),
            return in_context([=] {
              return (flags & ~kAllWaitFlags) != 0
                         ? kInvalidValue
                         : gpemu_cuda_stream_wait_event(on(stream), event, flags);
            });)

GPEMU_TWINS(cudaStreamGetPriority, _ptsz, (Stream stream, int* priority),
            return get_part(on(stream), priority,
                            [](const gpemu_cuda_stream_info& info) { return info.priority; });)

GPEMU_TWINS(cudaStreamGetFlags, _ptsz, (Stream stream, unsigned* flags),
            return get_part(on(stream), flags,
                            [](const gpemu_cuda_stream_info& info) { return info.flags; });)

GPEMU_TWINS(cudaStreamGetId, _ptsz, (Stream stream, unsigned long long* id),
            return get_part(on(stream), id,
                            [](const gpemu_cuda_stream_info& info) { return info.id; });)

GPEMU_TWINS(cudaStreamGetDevice, _ptsz, (Stream stream, int* device),
            return get_part(on(stream), device,
                            [](const gpemu_cuda_stream_info& info) { return info.device; });)

GPEMU_TWINS(cudaStreamGetAttribute, _ptsz, (Stream stream, int attribute, int* value),
            return get_attribute(on(stream), attribute, value);)

GPEMU_TWINS(cudaStreamSetAttribute, _ptsz, (Stream stream, int /*attribute*/, const void* value),
            (void)on(stream);
            return set_attribute(value);)

GPEMU_TWINS(cudaStreamAddCallback, _ptsz,
            (Stream stream, StreamCallback function, void* data, unsigned flags),
            return in_context([=] { return add_callback(on(stream), function, data, flags); });)

GPEMU_TWINS(cudaLaunchHostFunc, _ptsz, (Stream stream, void (*function)(void*), void* data),
            return in_context([=] { return call_on_host(on(stream), function, data); });)

#if GPEMU_CUDA_MAJOR == 13
// How the device waits for the function (the last argument) is gpemu's choice.
GPEMU_TWINS(cudaLaunchHostFunc_v2, _ptsz,
            (Stream stream, void (*function)(void*), void* data, unsigned mode),
            return in_context([=] {
              return mode > kLastHostWait ? kInvalidValue
                                          : call_on_host(on(stream), function, data);
            });)
#endif

GPEMU_TWINS(cudaStreamAttachMemAsync, _ptsz,
            (Stream stream, void* memory, size_t /*length*/, unsigned flags),
            return in_context([=] {
              return attach_memory(on(stream), address_of(memory), flags);
            });)
