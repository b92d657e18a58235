// SPDX-License-Identifier: Apache-2.0
#include "cuda.hpp"

namespace {

int copy(Address destination, Address source, size_t bytes, gpemu_cuda_copy_kind kind,
         Stream stream, bool blocking) {
  return in_context([=] {
    return bytes == 0
               ? kSuccess
               : gpemu_cuda_memcpy(destination, source, bytes, kind, stream, blocking ? 1 : 0);
  });
}

int start_of(const CopyEnd3D& end, Address* start) {
  const size_t offset = (end.z * end.height + end.y) * end.pitch + end.x_bytes;
  switch (end.memory_type) {
    case kHostMemory:
      *start = address_of(end.host) + offset;
      return kSuccess;
    case kDeviceMemory:
    case kUnifiedMemory:
      *start = end.device + offset;
      return kSuccess;
    case kArrayMemory:
      return not_supported("copies from and to arrays");
    default:
      return kInvalidValue;
  }
}

int copy_3d(const Copy3D* from, Stream stream, bool blocking) {
  return in_context([=] {
    gpemu_cuda_copy description{};
    const int status = describe_copy(from, &description);
    const bool nothing =
        description.width_bytes == 0 || description.height == 0 || description.depth == 0;
    return status != kSuccess || nothing
               ? status
               : gpemu_cuda_copy_memory(&description, stream, blocking ? 1 : 0);
  });
}

CopyEnd3D widened(const CopyEnd2D& end) {
  return {.x_bytes = end.x_bytes,
          .y = end.y,
          .z = 0,
          .level = 0,
          .memory_type = end.memory_type,
          .host = end.host,
          .device = end.device,
          .array = end.array,
          .reserved = nullptr,
          .pitch = end.pitch,
          .height = 0};
}

int copy_2d(const Copy2D* from, Stream stream, bool blocking) {
  if (from == nullptr) {
    return kInvalidValue;
  }
  const Copy3D wide{widened(from->source), widened(from->destination), from->width_bytes,
                    from->height, 1};
  return copy_3d(&wide, stream, blocking);
}

int set(Address address, size_t pitch, unsigned value, unsigned element_bytes, size_t count,
        size_t height, Stream stream) {
  return in_context([=] {
    if (count == 0 || height == 0) {
      return kSuccess;
    }
    return (height > 1 && pitch < count * element_bytes) || address % element_bytes != 0
               ? kInvalidValue
               : gpemu_cuda_set_memory(address, pitch, value, element_bytes, count, height, stream);
  });
}

}  // namespace

int describe_copy(const Copy3D* from, gpemu_cuda_copy* to) {
  if (from == nullptr) {
    return kInvalidValue;
  }
  gpemu_cuda_copy copy = {
      .width_bytes = from->width_bytes,
      .height = from->height,
      .depth = from->depth,
      .destination_pitch = from->destination.pitch,
      .source_pitch = from->source.pitch,
      .destination_plane_pitch = from->destination.pitch * from->destination.height,
      .source_plane_pitch = from->source.pitch * from->source.height,
      .kind = GPEMU_CUDA_COPY_DEFAULT};
  int status = start_of(from->source, &copy.source);
  if (status == kSuccess) {
    status = start_of(from->destination, &copy.destination);
  }
  const bool several = from->height > 1 || from->depth > 1;
  if (status == kSuccess && several &&
      (from->source.pitch < from->width_bytes || from->destination.pitch < from->width_bytes)) {
    return kInvalidValue;
  }
  if (status == kSuccess) {
    *to = copy;
  }
  return status;
}

GPEMU_TWINS(cuMemcpy, _ptds, (Address destination, Address source, size_t bytes),
            return copy(destination, source, bytes, GPEMU_CUDA_COPY_DEFAULT, on(nullptr), true);)

GPEMU_TWINS(cuMemcpyAsync, _ptsz,
            (Address destination, Address source, size_t bytes, Stream stream),
            return copy(destination, source, bytes, GPEMU_CUDA_COPY_DEFAULT, on(stream), false);)

GPEMU_TWINS(cuMemcpyPeer, _ptds,
            (Address destination, Context /*destination_context*/, Address source,
             Context /*source_context*/, size_t bytes),
            return copy(destination, source, bytes, GPEMU_CUDA_COPY_DEVICE_TO_DEVICE, on(nullptr),
                        true);)

GPEMU_TWINS(cuMemcpyPeerAsync, _ptsz,
            (Address destination, Context /*destination_context*/, Address source,
             Context /*source_context*/, size_t bytes, Stream stream),
            return copy(destination, source, bytes, GPEMU_CUDA_COPY_DEVICE_TO_DEVICE, on(stream),
                        false);)

GPEMU_TWINS(cuMemcpyHtoD_v2, _ptds, (Address destination, const void* source, size_t bytes),
            return copy(destination, address_of(source), bytes, GPEMU_CUDA_COPY_HOST_TO_DEVICE,
                        on(nullptr), true);)

GPEMU_TWINS(cuMemcpyHtoDAsync_v2, _ptsz,
            (Address destination, const void* source, size_t bytes, Stream stream),
            return copy(destination, address_of(source), bytes, GPEMU_CUDA_COPY_HOST_TO_DEVICE,
                        on(stream), false);)

GPEMU_TWINS(cuMemcpyDtoH_v2, _ptds, (void* destination, Address source, size_t bytes),
            return copy(address_of(destination), source, bytes, GPEMU_CUDA_COPY_DEVICE_TO_HOST,
                        on(nullptr), true);)

GPEMU_TWINS(cuMemcpyDtoHAsync_v2, _ptsz,
            (void* destination, Address source, size_t bytes, Stream stream),
            return copy(address_of(destination), source, bytes, GPEMU_CUDA_COPY_DEVICE_TO_HOST,
                        on(stream), false);)

GPEMU_TWINS(cuMemcpyDtoD_v2, _ptds, (Address destination, Address source, size_t bytes),
            return copy(destination, source, bytes, GPEMU_CUDA_COPY_DEVICE_TO_DEVICE, on(nullptr),
                        true);)

GPEMU_TWINS(cuMemcpyDtoDAsync_v2, _ptsz,
            (Address destination, Address source, size_t bytes, Stream stream),
            return copy(destination, source, bytes, GPEMU_CUDA_COPY_DEVICE_TO_DEVICE, on(stream),
                        false);)

GPEMU_TWINS(cuMemcpy2D_v2, _ptds, (const Copy2D* from), return copy_2d(from, on(nullptr), true);)

GPEMU_TWINS(cuMemcpy2DUnaligned_v2, _ptds, (const Copy2D* from),
            return copy_2d(from, on(nullptr), true);)

GPEMU_TWINS(cuMemcpy2DAsync_v2, _ptsz, (const Copy2D* from, Stream stream),
            return copy_2d(from, on(stream), false);)

GPEMU_TWINS(cuMemcpy3D_v2, _ptds, (const Copy3D* from), return copy_3d(from, on(nullptr), true);)

GPEMU_TWINS(cuMemcpy3DAsync_v2, _ptsz, (const Copy3D* from, Stream stream),
            return copy_3d(from, on(stream), false);)

GPEMU_TWINS(cuMemsetD8_v2, _ptds, (Address address, unsigned char value, size_t count),
            return set(address, 0, value, 1, count, 1, on(nullptr));)

GPEMU_TWINS(cuMemsetD16_v2, _ptds, (Address address, unsigned short value, size_t count),
            return set(address, 0, value, 2, count, 1, on(nullptr));)

GPEMU_TWINS(cuMemsetD32_v2, _ptds, (Address address, unsigned value, size_t count),
            return set(address, 0, value, 4, count, 1, on(nullptr));)

GPEMU_TWINS(cuMemsetD8Async, _ptsz,
            (Address address, unsigned char value, size_t count, Stream stream),
            return set(address, 0, value, 1, count, 1, on(stream));)

GPEMU_TWINS(cuMemsetD16Async, _ptsz,
            (Address address, unsigned short value, size_t count, Stream stream),
            return set(address, 0, value, 2, count, 1, on(stream));)

GPEMU_TWINS(cuMemsetD32Async, _ptsz, (Address address, unsigned value, size_t count, Stream stream),
            return set(address, 0, value, 4, count, 1, on(stream));)

GPEMU_TWINS(cuMemsetD2D8_v2, _ptds,
            (Address address, size_t pitch, unsigned char value, size_t width, size_t height),
            return set(address, pitch, value, 1, width, height, on(nullptr));)

GPEMU_TWINS(cuMemsetD2D16_v2, _ptds,
            (Address address, size_t pitch, unsigned short value, size_t width, size_t height),
            return set(address, pitch, value, 2, width, height, on(nullptr));)

GPEMU_TWINS(cuMemsetD2D32_v2, _ptds,
            (Address address, size_t pitch, unsigned value, size_t width, size_t height),
            return set(address, pitch, value, 4, width, height, on(nullptr));)

GPEMU_TWINS(cuMemsetD2D8Async, _ptsz,
            (Address address, size_t pitch, unsigned char value, size_t width, size_t height,
             Stream stream),
            return set(address, pitch, value, 1, width, height, on(stream));)

GPEMU_TWINS(cuMemsetD2D16Async, _ptsz,
            (Address address, size_t pitch, unsigned short value, size_t width, size_t height,
             Stream stream),
            return set(address, pitch, value, 2, width, height, on(stream));)

GPEMU_TWINS(cuMemsetD2D32Async, _ptsz,
            (Address address, size_t pitch, unsigned value, size_t width, size_t height,
             Stream stream),
            return set(address, pitch, value, 4, width, height, on(stream));)
