// SPDX-License-Identifier: Apache-2.0
// Virtual memory management and stream-ordered memory.
#include "cuda.hpp"
#include "cuda_memory.hpp"

namespace {

int check(const AllocationProperties* properties) {
  if (properties == nullptr || properties->type != kPinnedAllocation) {
    return kInvalidValue;
  }
  // As without a fabric, which PyTorch asks for before it takes descriptors. Source: cuMemCreate in
  // the CUDA Driver API.
  if ((properties->handle_types & kFabricHandle) != 0) {
    return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  }
  if (properties->location.type != kDeviceLocation ||
      (properties->handle_types & ~kFileDescriptorHandle) != 0 || properties->compression != 0) {
    return not_supported(
        "memory that is on the host, compressed, or shared other than by descriptors");
  }
  return kSuccess;
}

int set_access(Address address, size_t bytes, const Access* accesses, size_t count) {
  if (accesses == nullptr || count == 0) {
    return kInvalidValue;
  }
  int status = kSuccess;
  for (size_t index = 0; status == kSuccess && index < count; ++index) {
    const Access& access = accesses[index];
    status = access.location.type != kDeviceLocation
                 ? kInvalidValue
                 : gpemu_cuda_vmm_set_access(address, bytes, access.location.id, access.flags);
  }
  return status;
}

}  // namespace

GPEMU_SHIM_EXPORT int cuMemGetAllocationGranularity(size_t* bytes,
                                                    const AllocationProperties* properties,
                                                    int option) {
  const int status = bytes == nullptr || option < 0 || option > kLastGranularity
                         ? kInvalidValue
                         : check(properties);
  return status == kSuccess ? gpemu_cuda_vmm_granularity(properties->location.id, bytes) : status;
}

GPEMU_SHIM_EXPORT int cuMemAddressReserve(Address* address, size_t bytes, size_t alignment,
                                          Address wanted, unsigned long long flags) {
  return address == nullptr || flags != 0
             ? kInvalidValue
             : gpemu_cuda_vmm_reserve(bytes, alignment, wanted, address);
}

GPEMU_SHIM_EXPORT int cuMemAddressFree(Address address, size_t bytes) {
  return gpemu_cuda_vmm_unreserve(address, bytes);
}

GPEMU_SHIM_EXPORT int cuMemCreate(uint64_t* handle, size_t bytes,
                                  const AllocationProperties* properties,
                                  unsigned long long flags) {
  const int status = handle == nullptr || flags != 0 ? kInvalidValue : check(properties);
  return status == kSuccess ? gpemu_cuda_vmm_create(
                                  properties->location.id, bytes,
                                  properties->handle_types == kFileDescriptorHandle ? 1 : 0, handle)
                            : status;
}

GPEMU_SHIM_EXPORT int cuMemRelease(uint64_t handle) {
  return gpemu_cuda_vmm_release(handle);
}

GPEMU_SHIM_EXPORT int cuMemRetainAllocationHandle(uint64_t* handle, void* address) {
  return handle == nullptr ? kInvalidValue : gpemu_cuda_vmm_retain(address_of(address), handle);
}

GPEMU_SHIM_EXPORT int cuMemGetAllocationPropertiesFromHandle(AllocationProperties* properties,
                                                             uint64_t handle) {
  int32_t device = 0;
  int32_t exportable = 0;
  const int status = properties == nullptr
                         ? kInvalidValue
                         : gpemu_cuda_vmm_properties(handle, &device, &exportable);
  if (status == kSuccess) {
    *properties = {.type = kPinnedAllocation,
                   .handle_types = exportable != 0 ? kFileDescriptorHandle : 0,
                   .location = {.type = kDeviceLocation, .id = device}};
  }
  return status;
}

GPEMU_SHIM_EXPORT int cuMemMap(Address address, size_t bytes, size_t offset, uint64_t handle,
                               unsigned long long flags) {
  return flags != 0 ? kInvalidValue : gpemu_cuda_vmm_map(address, bytes, offset, handle);
}

GPEMU_SHIM_EXPORT int cuMemUnmap(Address address, size_t bytes) {
  return gpemu_cuda_vmm_unmap(address, bytes);
}

GPEMU_SHIM_EXPORT int cuMemSetAccess(Address address, size_t bytes, const Access* accesses,
                                     size_t count) {
  return set_access(address, bytes, accesses, count);
}

GPEMU_SHIM_EXPORT int cuMemGetAccess(unsigned long long* flags, const Location* location,
                                     Address address) {
  uint32_t access = 0;
  const int status = flags == nullptr || location == nullptr || location->type != kDeviceLocation
                         ? kInvalidValue
                         : gpemu_cuda_vmm_get_access(address, location->id, &access);
  return status == kSuccess ? put_result(status, flags, access) : status;
}

GPEMU_SHIM_EXPORT int cuMemExportToShareableHandle(void* shareable, uint64_t handle, int type,
                                                   unsigned long long flags) {
  if (type != kFileDescriptorHandle) {
    return not_supported("cuMemExportToShareableHandle to anything but a file descriptor");
  }
  return shareable == nullptr || flags != 0
             ? kInvalidValue
             : gpemu_cuda_vmm_export(handle, static_cast<int32_t*>(shareable));
}

GPEMU_SHIM_EXPORT int cuMemImportFromShareableHandle(uint64_t* handle, void* shareable, int type) {
  if (type != kFileDescriptorHandle) {
    return not_supported("cuMemImportFromShareableHandle of anything but a file descriptor");
  }
  return handle == nullptr
             ? kInvalidValue
             : gpemu_cuda_vmm_import(static_cast<int32_t>(reinterpret_cast<intptr_t>(shareable)),
                                     handle);
}

// ---- Stream-ordered memory ----

GPEMU_TWINS(cuMemAllocAsync, _ptsz, (Address * address, size_t bytes, Stream stream),
            return in_context([=] {
              return address == nullptr
                         ? kInvalidValue
                         : gpemu_cuda_malloc_async(bytes, nullptr, on(stream), address);
            });)

GPEMU_TWINS(cuMemAllocFromPoolAsync, _ptsz,
            (Address * address, size_t bytes, Pool pool, Stream stream), return in_context([=] {
              return address == nullptr || bytes == 0 || pool == nullptr
                         ? kInvalidValue
                         : gpemu_cuda_malloc_async(bytes, pool, on(stream), address);
            });)

GPEMU_TWINS(cuMemFreeAsync, _ptsz, (Address address, Stream stream),
            return in_context([=] { return gpemu_cuda_free_async(address, on(stream)); });)

GPEMU_SHIM_EXPORT int cuMemPoolCreate(Pool* pool, const PoolProperties* properties) {
  return create_pool(pool, properties, "cuMemPoolCreate of host memory or for other processes");
}

GPEMU_SHIM_EXPORT int cuMemPoolDestroy(Pool pool) {
  return pool == nullptr ? kInvalidValue : gpemu_cuda_pool_destroy(pool);
}

GPEMU_SHIM_EXPORT int cuMemPoolTrimTo(Pool pool, size_t keep_bytes) {
  return pool == nullptr ? kInvalidValue : gpemu_cuda_pool_trim(pool, keep_bytes);
}

GPEMU_SHIM_EXPORT int cuMemPoolGetAttribute(Pool pool, int attribute, void* value) {
  return get_pool_attribute(pool, attribute, value);
}

GPEMU_SHIM_EXPORT int cuMemPoolSetAttribute(Pool pool, int attribute, const void* value) {
  return set_pool_attribute(pool, attribute, value);
}

GPEMU_SHIM_EXPORT int cuMemPoolGetAccess(unsigned* flags, Pool pool, const Location* location) {
  return get_pool_access(flags, pool, location);
}
GPEMU_SHIM_EXPORT int cuMemPoolSetAccess(Pool pool, const Access* accesses, size_t count) {
  return accesses == nullptr ? kInvalidValue : set_pool_access(pool, accesses, count);
}
