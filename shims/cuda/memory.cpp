// SPDX-License-Identifier: Apache-2.0
#include "cuda.hpp"
#include "cuda_memory.hpp"
#include "stream_twins.hpp"

namespace {

int allocate(Address* address, size_t bytes) {
  return in_context([=] {
    return address == nullptr || bytes == 0 ? kInvalidValue : gpemu_cuda_malloc(bytes, address);
  });
}

int host_allocate(void** memory, size_t bytes, unsigned flags) {
  return in_context([=] {
    return memory == nullptr || bytes == 0 || (flags & ~kAllHostFlags) != 0
               ? kInvalidValue
               : gpemu_cuda_host_alloc(bytes, flags, memory);
  });
}

int pointer_info(Address address, gpemu_cuda_pointer* info) {
  const int status = gpemu_cuda_pointer_info(address, info);
  return status == kSuccess && info->kind == GPEMU_CUDA_MEMORY_UNREGISTERED ? kInvalidValue
                                                                            : status;
}

/// Yields one property of page-locked host memory.
template <typename Out, typename Part>
int get_host_part(void* memory, Out* out, Part part) {
  return in_context([=] {
    gpemu_cuda_pointer info{};
    const int status = pointer_info(address_of(memory), &info);
    return status == kSuccess && info.kind != GPEMU_CUDA_MEMORY_HOST
               ? kInvalidValue
               : put_result(status, out, part(info));
  });
}

template <typename Value>
int put(void* data, Value value) {
  *static_cast<Value*>(data) = value;
  return kSuccess;
}

int put_attribute(void* data, int attribute, Address address, const gpemu_cuda_pointer& info) {
  const bool on_device = info.kind != GPEMU_CUDA_MEMORY_HOST;
  const bool on_host = info.kind != GPEMU_CUDA_MEMORY_DEVICE;
  switch (attribute) {
    case kPointerContext:
      return put(data, context_of(info.device));
    case kPointerMemoryType:
      return put(data, unsigned{on_device ? kDeviceMemory : kHostMemory});
    case kPointerDevicePointer:
      return info.access != 0 ? put(data, address) : kInvalidValue;
    case kPointerHostPointer:
      return on_host ? put(data, pointer_to(address)) : kInvalidValue;
    case kPointerBufferId:
      return put(data, info.buffer_id);
    case kPointerSyncMemops:
      return put(data, 0U);
    case kPointerIsManaged:
      return put(data, info.kind == GPEMU_CUDA_MEMORY_MANAGED ? 1U : 0U);
    case kPointerDeviceOrdinal:
      return put(data, info.device);
    case kPointerIsLegacyIpc:
      return put(data, static_cast<unsigned>(info.legacy_ipc));
    case kPointerRangeStart:
      return put(data, info.range_start);
    case kPointerRangeSize:
      return put(data, size_t{info.range_bytes});
    case kPointerMapped:
      return put(data, 1U);
    case kPointerHandleTypes:
      return put(data, uint64_t{info.exportable != 0 ? unsigned{kFileDescriptorHandle} : 0U});
    case kPointerIsRdma:
      return put(data, 0U);
    case kPointerAccessFlags:
      return put(data, info.access);
    case kPointerPool:
      return put(data, info.pool);
    case kPointerMappingSize:
      return put(data, size_t{info.bytes});
    case kPointerMappingBase:
      return put(data, info.base);
    default:
      return kInvalidValue;
  }
}

/// Yields an attribute of memory that CUDA does not know.
int put_default(void* data, int attribute) {
  switch (attribute) {
    case kPointerMemoryType:
    case kPointerSyncMemops:
    case kPointerIsManaged:
    case kPointerIsLegacyIpc:
    case kPointerMapped:
    case kPointerIsRdma:
    case kPointerAccessFlags:
      return put(data, 0U);
    case kPointerDeviceOrdinal:
      return put(data, kNoDevice);
    case kPointerContext:
    case kPointerDevicePointer:
    case kPointerHostPointer:
    case kPointerBufferId:
    case kPointerRangeStart:
    case kPointerRangeSize:
    case kPointerHandleTypes:
    case kPointerPool:
    case kPointerMappingSize:
    case kPointerMappingBase:
      return put(data, uint64_t{0});
    default:
      return kInvalidValue;
  }
}

/// Yields what is known of reserved addresses without memory.
int put_reserved(void* data, int attribute, const gpemu_cuda_pointer& info) {
  switch (attribute) {
    case kPointerRangeStart:
      return put(data, info.range_start);
    case kPointerRangeSize:
      return put(data, size_t{info.range_bytes});
    case kPointerMapped:
      return put(data, 0U);
    default:
      return kInvalidValue;
  }
}

int get_attributes(unsigned count, const int* attributes, void** data, Address address) {
  if (count == 0 || attributes == nullptr || data == nullptr) {
    return kInvalidValue;
  }
  gpemu_cuda_pointer info{};
  int status = gpemu_cuda_pointer_info(address, &info);
  for (unsigned index = 0; status == kSuccess && index < count; ++index) {
    if (data[index] == nullptr) {
      return kInvalidValue;
    }
    // An attribute that this memory lacks, such as a host pointer of device memory, is 0.
    status = put_default(data[index], attributes[index]);
    if (status == kSuccess && info.kind != GPEMU_CUDA_MEMORY_UNREGISTERED) {
      (void)put_attribute(data[index], attributes[index], address, info);
    } else if (status == kSuccess && info.range_bytes != 0) {
      (void)put_reserved(data[index], attributes[index], info);
    }
  }
  return status;
}

}  // namespace

GPEMU_SHIM_EXPORT int cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  return in_context([=] { return get_memory_info(free_bytes, total_bytes); });
}

GPEMU_SHIM_EXPORT int cuMemAlloc_v2(Address* address, size_t bytes) {
  return allocate(address, bytes);
}

GPEMU_SHIM_EXPORT int cuMemAllocPitch_v2(Address* address, size_t* pitch, size_t width,
                                         size_t height, unsigned element_bytes) {
  if (pitch == nullptr || (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)) {
    return kInvalidValue;
  }
  size_t padded = 0;
  size_t bytes = 0;
  const int status = measure_rows(width, height, &padded, &bytes);
  return status == kSuccess ? put_result(allocate(address, bytes), pitch, padded) : status;
}

GPEMU_SHIM_EXPORT int cuMemAllocManaged(Address* address, size_t bytes, unsigned flags) {
  return in_context([=] {
    return address == nullptr || bytes == 0 || (flags != kAttachGlobal && flags != kAttachHost)
               ? kInvalidValue
               : gpemu_cuda_malloc_managed(bytes, flags, address);
  });
}

GPEMU_SHIM_EXPORT int cuMemFree_v2(Address address) {
  return in_context([=] { return gpemu_cuda_free(address); });
}

GPEMU_SHIM_EXPORT int cuMemGetAddressRange_v2(Address* base, size_t* bytes, Address address) {
  return in_context([=] {
    if (base == nullptr && bytes == nullptr) {  // Source: an H200, driver 580.159.
      return kSuccess;
    }
    gpemu_cuda_pointer info{};
    const int status = pointer_info(address, &info);
    if (status == kSuccess && base != nullptr) {
      *base = info.base;
    }
    if (status == kSuccess && bytes != nullptr) {
      *bytes = info.bytes;
    }
    return status == kInvalidValue ? static_cast<int>(GPEMU_CUDA_ERROR_NOT_FOUND) : status;
  });
}

GPEMU_SHIM_EXPORT int cuMemAllocHost_v2(void** memory, size_t bytes) {
  if (memory != nullptr && bytes == 0) {  // no error, unlike of cuMemHostAlloc
    return in_context([=] {
      *memory = nullptr;
      return kSuccess;
    });
  }
  return host_allocate(memory, bytes, 0);
}

GPEMU_SHIM_EXPORT int cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  return host_allocate(memory, bytes, flags);
}

/// Source: a driver 590.48 with an RTX 4090, github.com/lupinemachines/lupine/pull/858: a null
/// pointer is accepted.
GPEMU_SHIM_EXPORT int cuMemFreeHost(void* memory) {
  return in_context([=] { return memory == nullptr ? kSuccess : gpemu_cuda_host_free(memory); });
}

GPEMU_SHIM_EXPORT int cuMemHostRegister_v2(void* memory, size_t bytes, unsigned flags) {
  return in_context([=] {
    return memory == nullptr || bytes == 0 || (flags & (~kAllRegisterFlags | kIoMemory)) != 0
               ? kInvalidValue
               : gpemu_cuda_host_register(memory, bytes, flags);
  });
}

GPEMU_SHIM_EXPORT int cuMemHostRegister(void* memory, size_t bytes, unsigned flags) {
  return cuMemHostRegister_v2(memory, bytes, flags);
}

GPEMU_SHIM_EXPORT int cuMemHostUnregister(void* memory) {
  return in_context(
      [=] { return memory == nullptr ? kInvalidValue : gpemu_cuda_host_unregister(memory); });
}

GPEMU_SHIM_EXPORT int cuMemHostGetDevicePointer_v2(Address* address, void* memory, unsigned flags) {
  return flags != 0 ? kInvalidValue
                    : get_host_part(memory, address,
                                    [=](const gpemu_cuda_pointer&) { return address_of(memory); });
}

GPEMU_SHIM_EXPORT int cuMemHostGetFlags(unsigned* flags, void* memory) {
  return get_host_part(memory, flags,
                       [](const gpemu_cuda_pointer& info) { return shown_host_flags(info.flags); });
}

GPEMU_SHIM_EXPORT int cuPointerGetAttribute(void* data, int attribute, Address address) {
  gpemu_cuda_pointer info{};
  const int status = data == nullptr ? kInvalidValue : gpemu_cuda_pointer_info(address, &info);
  if (status != kSuccess) {
    return status;
  }
  if (info.kind == GPEMU_CUDA_MEMORY_UNREGISTERED) {
    return info.range_bytes == 0 ? kInvalidValue : put_reserved(data, attribute, info);
  }
  return put_attribute(data, attribute, address, info);
}

GPEMU_SHIM_EXPORT int cuPointerGetAttributes(unsigned count, const int* attributes, void** data,
                                             Address address) {
  return get_attributes(count, attributes, data, address);
}

GPEMU_SHIM_EXPORT int cuMemAdvise(Address address, size_t bytes, int advice, Device place) {
  return in_context([=] { return gpemu_cuda_advise(address, bytes, advice, place); });
}

GPEMU_SHIM_EXPORT int cuMemAdvise_v2(Address address, size_t bytes, int advice, Location location) {
  return in_context([=] { return advise(address, bytes, advice, location); });
}

GPEMU_TWINS(cuMemPrefetchAsync, _ptsz, (Address address, size_t bytes, Device place, Stream stream),
            return in_context([=] {
              return gpemu_cuda_prefetch(address, bytes, place, on(stream));
            });)

GPEMU_TWINS(cuMemPrefetchAsync_v2, _ptsz,
            (Address address, size_t bytes, Location location, unsigned flags, Stream stream),
            return in_context([=] {
              return prefetch(address, bytes, location, flags, on(stream));
            });)

GPEMU_SHIM_EXPORT int cuMemRangeGetAttribute(void* data, size_t data_bytes, int attribute,
                                             Address address, size_t bytes) {
  return in_context(
      [=] { return get_range_attribute(data, data_bytes, attribute, address, bytes); });
}

GPEMU_SHIM_EXPORT int cuMemRangeGetAttributes(void** data, size_t* data_bytes, int* attributes,
                                              size_t count, Address address, size_t bytes) {
  return in_context(
      [=] { return get_range_attributes(data, data_bytes, attributes, count, address, bytes); });
}

GPEMU_TWINS(cuStreamAttachMemAsync, _ptsz,
            (Stream stream, Address address, size_t /*length*/, unsigned flags),
            return in_context([=] { return attach_memory(on(stream), address, flags); });)

// ---- Memory of other processes ----

GPEMU_SHIM_EXPORT int cuIpcGetMemHandle(gpemu_cuda_ipc* handle, Address address) {
  return in_context([=] {
    return handle == nullptr ? kInvalidValue : gpemu_cuda_ipc_export_memory(address, handle);
  });
}

GPEMU_SHIM_EXPORT int cuIpcOpenMemHandle_v2(Address* address, gpemu_cuda_ipc handle,
                                            unsigned flags) {
  return in_context([&] {
    return address == nullptr || (flags & ~kAllIpcFlags) != 0
               ? kInvalidValue
               : gpemu_cuda_ipc_open_memory(&handle, address);
  });
}

GPEMU_SHIM_EXPORT int cuIpcOpenMemHandle(Address* address, gpemu_cuda_ipc handle, unsigned flags) {
  return cuIpcOpenMemHandle_v2(address, handle, flags);
}

GPEMU_SHIM_EXPORT int cuIpcCloseMemHandle(Address address) {
  return in_context([=] { return gpemu_cuda_ipc_close_memory(address); });
}

GPEMU_SHIM_EXPORT int cuIpcGetEventHandle(gpemu_cuda_ipc* handle, Event event) {
  return in_context([=] {
    return handle == nullptr ? kInvalidValue : gpemu_cuda_ipc_export_event(event, handle);
  });
}

GPEMU_SHIM_EXPORT int cuIpcOpenEventHandle(Event* event, gpemu_cuda_ipc handle) {
  return in_context(
      [&] { return event == nullptr ? kInvalidValue : gpemu_cuda_ipc_open_event(&handle, event); });
}
