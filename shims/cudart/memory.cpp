// SPDX-License-Identifier: Apache-2.0
#include "cuda_memory.hpp"
#include "cudart.hpp"

namespace {

int allocate(void** memory, size_t bytes) {
  uint64_t address = 0;
  const int status = gpemu_cuda_malloc(bytes, &address);
  if (status == kSuccess) {
    *memory = pointer_to(address);
  }
  return status;
}

int allocate_rows(void** memory, size_t* pitch, size_t width, size_t rows) {
  size_t padded = 0;
  size_t bytes = 0;
  int status = measure_rows(width, rows, &padded, &bytes);
  if (status == kSuccess) {
    status = allocate(memory, bytes);
  }
  if (status == kSuccess) {
    *pitch = padded;
  }
  return status;
}

int host_allocate(void** memory, size_t bytes, unsigned flags) {
  return in_context([=] {
    return memory == nullptr || (flags & ~kAllHostFlags) != 0
               ? kInvalidValue
               : gpemu_cuda_host_alloc(bytes, flags, memory);
  });
}

int get_pointer_attributes(PointerAttributes* attributes, const void* pointer) {
  gpemu_cuda_pointer info{};
  const int status = gpemu_cuda_pointer_info(address_of(pointer), &info);
  if (status != kSuccess) {
    return status;
  }
  const bool known = info.kind != GPEMU_CUDA_MEMORY_UNREGISTERED;
  *attributes = {};
  attributes->type = info.kind;
  attributes->device = known ? info.device : kNoDevice;
  attributes->device_pointer = known ? const_cast<void*>(pointer) : nullptr;
  attributes->host_pointer =
      info.kind == GPEMU_CUDA_MEMORY_DEVICE ? nullptr : const_cast<void*>(pointer);
  return kSuccess;
}

/// Yields a property of registered host memory.
template <typename Out, typename Part>
int get_host_part(void* memory, Out* out, Part part) {
  return in_context([=] {
    gpemu_cuda_pointer info{};
    const int status =
        out == nullptr ? kInvalidValue : gpemu_cuda_pointer_info(address_of(memory), &info);
    if (status != kSuccess || info.kind != GPEMU_CUDA_MEMORY_HOST) {
      return status != kSuccess ? status : kInvalidValue;
    }
    *out = part(info);
    return kSuccess;
  });
}

int allocate_async(void** memory, size_t bytes, Pool pool, Stream stream) {
  if (memory == nullptr) {
    return kInvalidValue;
  }
  uint64_t address = 0;
  const int status = gpemu_cuda_malloc_async(bytes, pool, stream, &address);
  if (status == kSuccess) {
    *memory = pointer_to(address);
  }
  return status;
}

}  // namespace

GPEMU_SHIM_EXPORT int cudaMalloc(void** memory, size_t bytes) {
  return in_context([=] { return memory == nullptr ? kInvalidValue : allocate(memory, bytes); });
}

GPEMU_SHIM_EXPORT int cudaMallocPitch(void** memory, size_t* pitch, size_t width, size_t height) {
  return in_context([=] {
    return memory == nullptr || pitch == nullptr ? kInvalidValue
                                                 : allocate_rows(memory, pitch, width, height);
  });
}

GPEMU_SHIM_EXPORT int cudaMalloc3D(PitchedPointer* memory, Extent extent) {
  return in_context([=] {
    size_t rows = 0;
    if (memory == nullptr || __builtin_mul_overflow(extent.height, extent.depth, &rows)) {
      return kInvalidValue;
    }
    PitchedPointer made{nullptr, 0, extent.width, extent.height};
    const int status = allocate_rows(&made.pointer, &made.pitch, extent.width, rows);
    if (status == kSuccess) {
      *memory = made;
    }
    return status;
  });
}

GPEMU_SHIM_EXPORT int cudaMallocManaged(void** memory, size_t bytes, unsigned flags) {
  return in_context([=] {
    uint64_t address = 0;
    const int status =
        memory == nullptr || bytes == 0 || (flags != kAttachGlobal && flags != kAttachHost)
            ? kInvalidValue
            : gpemu_cuda_malloc_managed(bytes, flags, &address);
    if (status == kSuccess) {
      *memory = pointer_to(address);
    }
    return status;
  });
}

GPEMU_SHIM_EXPORT int cudaFree(void* memory) {
  return in_context([=] { return gpemu_cuda_free(address_of(memory)); });
}

GPEMU_SHIM_EXPORT int cudaMallocHost(void** memory, size_t bytes) {
  return host_allocate(memory, bytes, 0);
}

GPEMU_SHIM_EXPORT int cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
  return host_allocate(memory, bytes, flags);
}

GPEMU_SHIM_EXPORT int cudaFreeHost(void* memory) {
  return in_context([=] { return memory == nullptr ? kSuccess : gpemu_cuda_host_free(memory); });
}

GPEMU_SHIM_EXPORT int cudaHostRegister(void* memory, size_t bytes, unsigned flags) {
  return in_context([=] {
    return memory == nullptr || bytes == 0 || (flags & (~kAllRegisterFlags | kIoMemory)) != 0
               ? kInvalidValue
               : gpemu_cuda_host_register(memory, bytes, flags);
  });
}

GPEMU_SHIM_EXPORT int cudaHostUnregister(void* memory) {
  return in_context(
      [=] { return memory == nullptr ? kInvalidValue : gpemu_cuda_host_unregister(memory); });
}

GPEMU_SHIM_EXPORT int cudaHostGetDevicePointer(void** device_memory, void* memory, unsigned flags) {
  return flags != 0 ? record(kInvalidValue)
                    : get_host_part(memory, device_memory,
                                    [=](const gpemu_cuda_pointer&) { return memory; });
}

GPEMU_SHIM_EXPORT int cudaHostGetFlags(unsigned* flags, void* memory) {
  return get_host_part(memory, flags,
                       [](const gpemu_cuda_pointer& info) { return shown_host_flags(info.flags); });
}

GPEMU_SHIM_EXPORT int cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return in_context([=] { return get_memory_info(free_bytes, total_bytes); });
}

GPEMU_SHIM_EXPORT int cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  return in_context([=] {
    return attributes == nullptr ? kInvalidValue : get_pointer_attributes(attributes, pointer);
  });
}

GPEMU_SHIM_EXPORT int cudaGetSymbolAddress(void** memory, const void* symbol) {
  return in_context([=] {
    uint64_t address = 0;
    uint64_t bytes = 0;
    const int status = memory == nullptr ? kInvalidValue
                                         : gpemu_cuda_registered_variable(symbol, &address, &bytes);
    if (status == kSuccess) {
      *memory = pointer_to(address);
    }
    return status;
  });
}

GPEMU_SHIM_EXPORT int cudaGetSymbolSize(size_t* size, const void* symbol) {
  return in_context([=] {
    uint64_t address = 0;
    uint64_t bytes = 0;
    const int status =
        size == nullptr ? kInvalidValue : gpemu_cuda_registered_variable(symbol, &address, &bytes);
    if (status == kSuccess) {
      *size = bytes;
    }
    return status;
  });
}

// ---- Stream-ordered memory ----

GPEMU_TWINS(cudaMallocAsync, _ptsz, (void** memory, size_t bytes, Stream stream),
            return in_context([=] { return allocate_async(memory, bytes, nullptr, on(stream)); });)

GPEMU_TWINS(cudaMallocFromPoolAsync, _ptsz, (void** memory, size_t bytes, Pool pool, Stream stream),
            return in_context([=] {
              return pool == nullptr ? kInvalidValue
                                     : allocate_async(memory, bytes, pool, on(stream));
            });)

GPEMU_TWINS(cudaFreeAsync, _ptsz, (void* memory, Stream stream), return in_context([=] {
              return gpemu_cuda_free_async(address_of(memory), on(stream));
            });)

GPEMU_SHIM_EXPORT int cudaMemPoolCreate(Pool* pool, const PoolProperties* properties) {
  return in_context([=] {
    return create_pool(pool, properties, "cudaMemPoolCreate of host memory or for other processes");
  });
}

GPEMU_SHIM_EXPORT int cudaMemPoolDestroy(Pool pool) {
  return in_context(
      [=] { return pool == nullptr ? kInvalidValue : gpemu_cuda_pool_destroy(pool); });
}

GPEMU_SHIM_EXPORT int cudaDeviceGetDefaultMemPool(Pool* pool, int device) {
  return record(gpemu_cuda_pool_default(device, pool));
}

GPEMU_SHIM_EXPORT int cudaDeviceGetMemPool(Pool* pool, int device) {
  return record(gpemu_cuda_pool_current(device, pool));
}

GPEMU_SHIM_EXPORT int cudaDeviceSetMemPool(int device, Pool pool) {
  return record(pool == nullptr ? kInvalidValue : gpemu_cuda_pool_set_current(device, pool));
}

GPEMU_SHIM_EXPORT int cudaMemPoolTrimTo(Pool pool, size_t keep_bytes) {
  return in_context(
      [=] { return pool == nullptr ? kInvalidValue : gpemu_cuda_pool_trim(pool, keep_bytes); });
}

GPEMU_SHIM_EXPORT int cudaMemPoolGetAttribute(Pool pool, int attribute, void* value) {
  return in_context([=] { return get_pool_attribute(pool, attribute, value); });
}

GPEMU_SHIM_EXPORT int cudaMemPoolSetAttribute(Pool pool, int attribute, const void* value) {
  return in_context([=] { return set_pool_attribute(pool, attribute, value); });
}

GPEMU_SHIM_EXPORT int cudaMemPoolGetAccess(unsigned* flags, Pool pool, const Location* location) {
  return in_context([=] { return get_pool_access(flags, pool, location); });
}
GPEMU_SHIM_EXPORT int cudaMemPoolSetAccess(Pool pool, const Access* accesses, size_t count) {
  return in_context([=] { return set_pool_access(pool, accesses, count); });
}

// ---- Memory of other processes ----

GPEMU_SHIM_EXPORT int cudaIpcGetMemHandle(gpemu_cuda_ipc* handle, void* memory) {
  return in_context([=] {
    return handle == nullptr || memory == nullptr
               ? kInvalidValue
               : gpemu_cuda_ipc_export_memory(address_of(memory), handle);
  });
}

GPEMU_SHIM_EXPORT int cudaIpcOpenMemHandle(void** memory, gpemu_cuda_ipc handle, unsigned flags) {
  return in_context([&] {
    uint64_t address = 0;
    const int status = memory == nullptr || (flags & ~kAllIpcFlags) != 0
                           ? kInvalidValue
                           : gpemu_cuda_ipc_open_memory(&handle, &address);
    if (status == kSuccess) {
      *memory = pointer_to(address);
    }
    return status;
  });
}

GPEMU_SHIM_EXPORT int cudaIpcCloseMemHandle(void* memory) {
  return in_context([=] {
    return memory == nullptr ? kInvalidValue : gpemu_cuda_ipc_close_memory(address_of(memory));
  });
}

// ---- Managed memory ----

#if GPEMU_CUDA_MAJOR < 13
GPEMU_SHIM_EXPORT int cudaMemAdvise(const void* memory, size_t bytes, int advice, int place) {
  return in_context([=] { return gpemu_cuda_advise(address_of(memory), bytes, advice, place); });
}

GPEMU_SHIM_EXPORT int cudaMemAdvise_v2(const void* memory, size_t bytes, int advice,
                                       Location location) {
  return in_context([=] { return advise(address_of(memory), bytes, advice, location); });
}

GPEMU_TWINS(cudaMemPrefetchAsync, _ptsz,
            (const void* memory, size_t bytes, int place, Stream stream), return in_context([=] {
              return gpemu_cuda_prefetch(address_of(memory), bytes, place, on(stream));
            });)

GPEMU_TWINS(cudaMemPrefetchAsync_v2, _ptsz,
            (const void* memory, size_t bytes, Location location, unsigned flags, Stream stream),
            return in_context([=] {
              return prefetch(address_of(memory), bytes, location, flags, on(stream));
            });)
#else
GPEMU_SHIM_EXPORT int cudaMemAdvise(const void* memory, size_t bytes, int advice,
                                    Location location) {
  return in_context([=] { return advise(address_of(memory), bytes, advice, location); });
}

GPEMU_TWINS(cudaMemPrefetchAsync, _ptsz,
            (const void* memory, size_t bytes, Location location, unsigned flags, Stream stream),
            return in_context([=] {
              return prefetch(address_of(memory), bytes, location, flags, on(stream));
            });)
#endif

GPEMU_SHIM_EXPORT int cudaMemRangeGetAttribute(void* data, size_t data_bytes, int attribute,
                                               const void* memory, size_t bytes) {
  return in_context(
      [=] { return get_range_attribute(data, data_bytes, attribute, address_of(memory), bytes); });
}

GPEMU_SHIM_EXPORT int cudaMemRangeGetAttributes(void** data, size_t* data_bytes, int* attributes,
                                                size_t count, const void* memory, size_t bytes) {
  return in_context([=] {
    return get_range_attributes(data, data_bytes, attributes, count, address_of(memory), bytes);
  });
}
