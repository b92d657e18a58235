// SPDX-License-Identifier: Apache-2.0
#include "cudart.hpp"

namespace {

int copy(void* destination, const void* source, size_t bytes, int kind, Stream stream,
         bool blocking) {
  if (!is_copy_kind(kind)) {
    return GPEMU_CUDA_ERROR_INVALID_MEMCPY_DIRECTION;
  }
  if (bytes == 0) {
    return kSuccess;
  }
  return gpemu_cuda_memcpy(address_of(destination), address_of(source), bytes,
                           static_cast<gpemu_cuda_copy_kind>(kind), stream, blocking ? 1 : 0);
}

struct Rows {
  void* destination;
  size_t destination_pitch;
  const void* source;
  size_t source_pitch, width, height;
};

int copy_rows(const Rows& rows, int kind, Stream stream, bool blocking) {
  if (!is_copy_kind(kind)) {
    return GPEMU_CUDA_ERROR_INVALID_MEMCPY_DIRECTION;
  }
  if (rows.width > rows.destination_pitch || rows.width > rows.source_pitch) {
    return kInvalidPitchValue;
  }
  if (rows.width == 0 || rows.height == 0) {
    return kSuccess;
  }
  const gpemu_cuda_copy description = {.destination = address_of(rows.destination),
                                       .source = address_of(rows.source),
                                       .width_bytes = rows.width,
                                       .height = rows.height,
                                       .depth = 1,
                                       .destination_pitch = rows.destination_pitch,
                                       .source_pitch = rows.source_pitch,
                                       .kind = static_cast<gpemu_cuda_copy_kind>(kind)};
  return gpemu_cuda_copy_memory(&description, stream, blocking ? 1 : 0);
}

int copy_3d(const Copy3D* parameters, Stream stream, bool blocking) {
  gpemu_cuda_copy description{};
  const int status = describe_copy(parameters, &description);
  const bool nothing =
      description.width_bytes == 0 || description.height == 0 || description.depth == 0;
  return status != kSuccess || nothing
             ? status
             : gpemu_cuda_copy_memory(&description, stream, blocking ? 1 : 0);
}

int check_devices(int first, int second) {
  const gpemu_cuda_device* info = nullptr;
  const int status = gpemu_cuda_get_device(first, &info);
  return status != kSuccess ? status : gpemu_cuda_get_device(second, &info);
}

int copy_3d_peer(const PeerCopy3D* peer, Stream stream, bool blocking) {
  if (peer == nullptr) {
    return kInvalidValue;
  }
  const Copy3D plain = {
      peer->source_array,         peer->source_position, peer->source, peer->destination_array,
      peer->destination_position, peer->destination,     peer->extent, GPEMU_CUDA_COPY_DEFAULT};
  const int status = check_devices(peer->source_device, peer->destination_device);
  return status != kSuccess ? status : copy_3d(&plain, stream, blocking);
}

/// One end of a copy from or to a variable of the program.
int symbol_address(const void* symbol, size_t offset, size_t bytes, uint64_t* address) {
  uint64_t size = 0;
  const int status = gpemu_cuda_registered_variable(symbol, address, &size);
  if (status == kSuccess && (offset > size || bytes > size - offset)) {
    return kInvalidValue;
  }
  *address += offset;
  return status;
}

int copy_to_symbol(const void* symbol, const void* source, size_t bytes, size_t offset, int kind,
                   Stream stream, bool blocking) {
  if (kind == GPEMU_CUDA_COPY_DEVICE_TO_HOST || kind == GPEMU_CUDA_COPY_HOST_TO_HOST) {
    return GPEMU_CUDA_ERROR_INVALID_MEMCPY_DIRECTION;
  }
  uint64_t address = 0;
  const int status = symbol_address(symbol, offset, bytes, &address);
  return status != kSuccess ? status
                            : copy(pointer_to(address), source, bytes, kind, stream, blocking);
}

int copy_from_symbol(void* destination, const void* symbol, size_t bytes, size_t offset, int kind,
                     Stream stream, bool blocking) {
  if (kind == GPEMU_CUDA_COPY_HOST_TO_DEVICE || kind == GPEMU_CUDA_COPY_HOST_TO_HOST) {
    return GPEMU_CUDA_ERROR_INVALID_MEMCPY_DIRECTION;
  }
  uint64_t address = 0;
  const int status = symbol_address(symbol, offset, bytes, &address);
  return status != kSuccess ? status
                            : copy(destination, pointer_to(address), bytes, kind, stream, blocking);
}

int copy_peer(void* destination, int destination_device, const void* source, int source_device,
              size_t bytes, Stream stream, bool blocking) {
  const int status = check_devices(destination_device, source_device);
  return status != kSuccess
             ? status
             : copy(destination, source, bytes, GPEMU_CUDA_COPY_DEFAULT, stream, blocking);
}

int set_rows(void* memory, size_t pitch, int value, size_t width, size_t height, Stream stream) {
  if (width == 0 || height == 0) {
    return kSuccess;
  }
  if (height > 1 && width > pitch) {
    return kInvalidValue;
  }
  return gpemu_cuda_set_memory(address_of(memory), pitch, static_cast<uint8_t>(value), 1, width,
                               height, stream);
}

int set_3d(const PitchedPointer& memory, int value, const Extent& extent, Stream stream) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) {
    return kSuccess;
  }
  if (extent.depth == 1) {
    return set_rows(memory.pointer, memory.pitch, value, extent.width, extent.height, stream);
  }
  if (extent.width > memory.pitch || extent.height > memory.height) {
    return kInvalidValue;
  }
  size_t plane_pitch = 0;
  size_t bytes = 0;
  if (__builtin_mul_overflow(memory.pitch, memory.height, &plane_pitch) ||
      __builtin_mul_overflow(plane_pitch, extent.depth, &bytes)) {
    return kInvalidValue;
  }
  // As few sets as possible: the rows of all planes in one if the planes have no gaps; else those
  // of each plane, or of each place in the planes.
  if (memory.height == extent.height) {
    return set_rows(memory.pointer, memory.pitch, value, extent.width, extent.height * extent.depth,
                    stream);
  }
  const bool by_plane = extent.depth <= extent.height;
  const size_t count = by_plane ? extent.depth : extent.height;
  for (size_t i = 0; i < count; ++i) {
    void* const start =
        pointer_to(address_of(memory.pointer) + i * (by_plane ? plane_pitch : memory.pitch));
    const int status = set_rows(start, by_plane ? memory.pitch : plane_pitch, value, extent.width,
                                by_plane ? extent.height : extent.depth, stream);
    if (status != kSuccess) {
      return status;
    }
  }
  return kSuccess;
}

int copy_batch(void* const* destinations, const void* const* sources, const size_t* sizes,
               size_t count, size_t* failed, Stream stream) {
  if (destinations == nullptr || sources == nullptr || sizes == nullptr || count == 0 ||
      stream == nullptr) {
    return kInvalidValue;
  }
  // No graph can hold it, and its failure breaks no capture.
  // Source: github.com/rapidsai/rmm/issues/2518.
  gpemu_cuda_capture_info capture{};
  if (const int got = gpemu_cuda_capture_get_info(stream, &capture); got != kSuccess) {
    return got;
  }
  if (capture.status == kCapturing) {
    return GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  for (size_t index = 0; index < count; ++index) {
    const int status = copy(destinations[index], sources[index], sizes[index],
                            GPEMU_CUDA_COPY_DEFAULT, stream, false);
    if (status != kSuccess) {
      if (failed != nullptr) {
        *failed = index;
      }
      return status;
    }
  }
  return kSuccess;
}

uint64_t start_of(const PitchedPointer& memory, const Position& position) {
  return address_of(memory.pointer) + (position.z * memory.height + position.y) * memory.pitch +
         position.x;
}

}  // namespace

int describe_copy(const Copy3D* parameters, gpemu_cuda_copy* copy) {
  if (parameters == nullptr) {
    return kInvalidValue;
  }
  if (parameters->source_array != nullptr || parameters->destination_array != nullptr) {
    return not_supported("copies from and to arrays");
  }
  if (!is_copy_kind(parameters->kind)) {
    return GPEMU_CUDA_ERROR_INVALID_MEMCPY_DIRECTION;
  }
  const PitchedPointer& source = parameters->source;
  const PitchedPointer& destination = parameters->destination;
  const Extent& extent = parameters->extent;
  if ((extent.height > 1 || extent.depth > 1) &&
      (extent.width > source.pitch || extent.width > destination.pitch)) {
    return kInvalidPitchValue;
  }
  *copy = {.destination = start_of(destination, parameters->destination_position),
           .source = start_of(source, parameters->source_position),
           .width_bytes = extent.width,
           .height = extent.height,
           .depth = extent.depth,
           .destination_pitch = destination.pitch,
           .source_pitch = source.pitch,
           .destination_plane_pitch = destination.pitch * destination.height,
           .source_plane_pitch = source.pitch * source.height,
           .kind = static_cast<gpemu_cuda_copy_kind>(parameters->kind)};
  return kSuccess;
}

GPEMU_TWINS(cudaMemcpy, _ptds, (void* destination, const void* source, size_t bytes, int kind),
            return in_context([=] {
              return copy(destination, source, bytes, kind, on(nullptr), true);
            });)

GPEMU_TWINS(cudaMemcpyAsync, _ptsz,
            (void* destination, const void* source, size_t bytes, int kind, Stream stream),
            return in_context([=] {
              return copy(destination, source, bytes, kind, on(stream), false);
            });)

GPEMU_TWINS(cudaMemcpy2D, _ptds,
            (void* destination, size_t destination_pitch, const void* source, size_t source_pitch,
             size_t width, size_t height, int kind),
            const Rows rows{destination, destination_pitch, source, source_pitch, width, height};
            return in_context([&] { return copy_rows(rows, kind, on(nullptr), true); });)

GPEMU_TWINS(cudaMemcpy2DAsync, _ptsz,
            (void* destination, size_t destination_pitch, const void* source, size_t source_pitch,
             size_t width, size_t height, int kind, Stream stream),
            const Rows rows{destination, destination_pitch, source, source_pitch, width, height};
            return in_context([&] { return copy_rows(rows, kind, on(stream), false); });)

GPEMU_TWINS(cudaMemcpy3D, _ptds, (const Copy3D* parameters),
            return in_context([=] { return copy_3d(parameters, on(nullptr), true); });)

GPEMU_TWINS(cudaMemcpy3DAsync, _ptsz, (const Copy3D* parameters, Stream stream),
            return in_context([=] { return copy_3d(parameters, on(stream), false); });)

GPEMU_TWINS(cudaMemcpy3DPeer, _ptds, (const PeerCopy3D* parameters),
            return in_context([=] { return copy_3d_peer(parameters, on(nullptr), true); });)

GPEMU_TWINS(cudaMemcpy3DPeerAsync, _ptsz, (const PeerCopy3D* parameters, Stream stream),
            return in_context([=] { return copy_3d_peer(parameters, on(stream), false); });)

GPEMU_SHIM_EXPORT int cudaMemcpyPeer(void* destination, int destination_device, const void* source,
                                     int source_device, size_t bytes) {
  return in_context([=] {
    return copy_peer(destination, destination_device, source, source_device, bytes, nullptr, true);
  });
}

GPEMU_SHIM_EXPORT int cudaMemcpyPeerAsync(void* destination, int destination_device,
                                          const void* source, int source_device, size_t bytes,
                                          Stream stream) {
  return in_context([=] {
    return copy_peer(destination, destination_device, source, source_device, bytes, stream, false);
  });
}

GPEMU_TWINS(cudaMemcpyToSymbol, _ptds,
            (const void* symbol, const void* source, size_t bytes, size_t offset, int kind),
            return in_context([=] {
              return copy_to_symbol(symbol, source, bytes, offset, kind, on(nullptr), true);
            });)

GPEMU_TWINS(cudaMemcpyToSymbolAsync, _ptsz,
            (const void* symbol, const void* source, size_t bytes, size_t offset, int kind,
             Stream stream),
            return in_context([=] {
              return copy_to_symbol(symbol, source, bytes, offset, kind, on(stream), false);
            });)

GPEMU_TWINS(cudaMemcpyFromSymbol, _ptds,
            (void* destination, const void* symbol, size_t bytes, size_t offset, int kind),
            return in_context([=] {
              return copy_from_symbol(destination, symbol, bytes, offset, kind, on(nullptr), true);
            });)

GPEMU_TWINS(cudaMemcpyFromSymbolAsync, _ptsz,
            (void* destination, const void* symbol, size_t bytes, size_t offset, int kind,
             Stream stream),
            return in_context([=] {
              return copy_from_symbol(destination, symbol, bytes, offset, kind, on(stream), false);
            });)

// The order in which sources are read, which the attributes may relax, is that of the stream.
#if GPEMU_CUDA_MAJOR < 13
GPEMU_SHIM_EXPORT int cudaMemcpyBatchAsync(void* const* destinations, const void* const* sources,
                                           const size_t* sizes, size_t count,
                                           const void* /*attributes*/, const size_t* /*indices*/,
                                           size_t /*attribute_count*/, size_t* failed,
                                           Stream stream) {
  return in_context(
      [=] { return copy_batch(destinations, sources, sizes, count, failed, stream); });
}
#else
GPEMU_SHIM_EXPORT int cudaMemcpyBatchAsync(void* const* destinations, const void* const* sources,
                                           const size_t* sizes, size_t count,
                                           const void* /*attributes*/, const size_t* /*indices*/,
                                           size_t /*attribute_count*/, Stream stream) {
  return in_context(
      [=] { return copy_batch(destinations, sources, sizes, count, nullptr, stream); });
}
#endif

GPEMU_TWINS(cudaMemset, _ptds, (void* memory, int value, size_t bytes), return in_context([=] {
              return set_rows(memory, bytes, value, bytes, 1, on(nullptr));
            });)

GPEMU_TWINS(cudaMemsetAsync, _ptsz, (void* memory, int value, size_t bytes, Stream stream),
            return in_context([=] {
              return set_rows(memory, bytes, value, bytes, 1, on(stream));
            });)

GPEMU_TWINS(cudaMemset2D, _ptds,
            (void* memory, size_t pitch, int value, size_t width, size_t height),
            return in_context([=] {
              return set_rows(memory, pitch, value, width, height, on(nullptr));
            });)

GPEMU_TWINS(cudaMemset2DAsync, _ptsz,
            (void* memory, size_t pitch, int value, size_t width, size_t height, Stream stream),
            return in_context([=] {
              return set_rows(memory, pitch, value, width, height, on(stream));
            });)

GPEMU_TWINS(cudaMemset3D, _ptds, (PitchedPointer memory, int value, Extent extent),
            return in_context([&] { return set_3d(memory, value, extent, on(nullptr)); });)

GPEMU_TWINS(cudaMemset3DAsync, _ptsz,
            (PitchedPointer memory, int value, Extent extent, Stream stream),
            return in_context([&] { return set_3d(memory, value, extent, on(stream)); });)
