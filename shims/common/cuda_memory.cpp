// SPDX-License-Identifier: Apache-2.0
#include "cuda_memory.hpp"

#include "device_attribute.hpp"

namespace {

// The first three attributes of a pool are int, the others 64 bits wide.
bool is_int(int attribute) {
  return attribute <= GPEMU_CUDA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

/// Yields the place of a location. Errors: INVALID_VALUE; NOT_SUPPORTED for NUMA nodes.
int find_place(Location location, int* place) {
  constexpr int kLastLocation = 4;
  if (location.type == kDeviceLocation || location.type == kHostLocation) {
    *place = location.type == kHostLocation ? kHostPlace : location.id;
    return kSuccess;
  }
  if (location.type <= kHostLocation || location.type > kLastLocation) {
    return kInvalidValue;
  }
  gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, "managed memory on a NUMA node of the host");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

/// Returns the type of a place's location.
int type_of(int place) {
  if (place == kNoPlace) {
    return kNoLocation;
  }
  return place == kHostPlace ? kHostLocation : kDeviceLocation;
}

}  // namespace

int get_memory_info(size_t* free_bytes, size_t* total_bytes) {
  uint64_t free = 0;
  uint64_t total = 0;
  const int status = gpemu_cuda_mem_info(&free, &total);
  // Either may be null. Source: an H200, driver 580.159.
  if (status == kSuccess && free_bytes != nullptr) {
    *free_bytes = free;
  }
  if (status == kSuccess && total_bytes != nullptr) {
    *total_bytes = total;
  }
  return status;
}

int measure_rows(size_t width, size_t rows, size_t* pitch, size_t* bytes) {
  constexpr size_t kAlignment = kTextureAlignment;
  if (width > SIZE_MAX - kAlignment) {
    return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  *pitch = (width + kAlignment - 1) / kAlignment * kAlignment;
  return __builtin_mul_overflow(*pitch, rows, bytes) ? GPEMU_CUDA_ERROR_OUT_OF_MEMORY : kSuccess;
}

int advise(uint64_t address, size_t bytes, int advice, Location location) {
  int place = kHostPlace;
  const int status = find_place(location, &place);
  return status == kSuccess ? gpemu_cuda_advise(address, bytes, advice, place) : status;
}

int prefetch(uint64_t address, size_t bytes, Location location, unsigned flags, Stream stream) {
  int place = kHostPlace;
  const int status = flags != 0 ? kInvalidValue : find_place(location, &place);
  return status == kSuccess ? gpemu_cuda_prefetch(address, bytes, place, stream) : status;
}

int get_range_attribute(void* data, size_t data_bytes, int attribute, uint64_t address,
                        size_t bytes) {
  constexpr size_t kEntry = sizeof(int);
  gpemu_cuda_managed_range range{};
  const bool fits = attribute == kRangeAccessedBy ? data_bytes != 0 && data_bytes % kEntry == 0
                                                  : data_bytes == kEntry;
  const int status =
      data == nullptr || !fits ? kInvalidValue : gpemu_cuda_managed_info(address, bytes, &range);
  if (status != kSuccess) {
    return status;
  }
  int* const values = static_cast<int*>(data);
  switch (attribute) {
    case kRangeReadMostly:
      *values = range.read_mostly;
      return kSuccess;
    case kRangePreferred:
    case kRangePreferredId:
      *values = range.preferred;
      return kSuccess;
    case kRangeAccessedBy:
      for (size_t index = 0; index < data_bytes / kEntry; ++index) {
        values[index] = index < range.accessed_by_count ? range.accessed_by[index] : int{kNoPlace};
      }
      return kSuccess;
    case kRangePrefetched:
    case kRangePrefetchedId:
      *values = range.prefetched;
      return kSuccess;
    case kRangePreferredType:
      *values = type_of(range.preferred);
      return kSuccess;
    case kRangePrefetchedType:
      *values = type_of(range.prefetched);
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

int get_range_attributes(void** data, size_t* data_bytes, int* attributes, size_t count,
                         uint64_t address, size_t bytes) {
  if (data == nullptr || data_bytes == nullptr || attributes == nullptr || count == 0) {
    return kInvalidValue;
  }
  int status = kSuccess;
  for (size_t index = 0; status == kSuccess && index < count; ++index) {
    status = get_range_attribute(data[index], data_bytes[index], attributes[index], address, bytes);
  }
  return status;
}

int attach_memory(Stream stream, uint64_t address, unsigned flags) {
  gpemu_cuda_pointer info{};
  const int status = gpemu_cuda_pointer_info(address, &info);
  if (status != kSuccess) {
    return status;
  }
  return info.kind != GPEMU_CUDA_MEMORY_MANAGED || flags > kAttachSingle
             ? kInvalidValue
             : gpemu_cuda_refuse_capture(stream);
}

int create_pool(Pool* pool, const PoolProperties* properties, const char* function) {
  if (pool == nullptr || properties == nullptr ||
      properties->allocation_type != kPinnedAllocation) {
    return kInvalidValue;
  }
  if (properties->location.type != kDeviceLocation || properties->handle_types != 0) {
    gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, function);
    return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  }
  return gpemu_cuda_pool_create(properties->location.id, properties->max_size, pool);
}

int get_pool_attribute(Pool pool, int attribute, void* value) {
  uint64_t got = 0;
  const int status =
      pool == nullptr || value == nullptr
          ? kInvalidValue
          : gpemu_cuda_pool_get(pool, static_cast<gpemu_cuda_pool_attribute>(attribute), &got);
  if (status == kSuccess && is_int(attribute)) {
    *static_cast<int*>(value) = static_cast<int>(got);
  } else if (status == kSuccess) {
    *static_cast<uint64_t*>(value) = got;
  }
  return status;
}

int set_pool_attribute(Pool pool, int attribute, const void* value) {
  if (pool == nullptr || value == nullptr) {
    return kInvalidValue;
  }
  const uint64_t wanted = is_int(attribute) ? static_cast<uint64_t>(*static_cast<const int*>(value))
                                            : *static_cast<const uint64_t*>(value);
  return gpemu_cuda_pool_set(pool, static_cast<gpemu_cuda_pool_attribute>(attribute), wanted);
}

int set_pool_access(Pool pool, const Access* accesses, size_t count) {
  if (pool == nullptr || (accesses == nullptr && count > 0)) {
    return kInvalidValue;
  }
  for (size_t index = 0; index < count; ++index) {
    const Access& access = accesses[index];
    if (access.location.type != kDeviceLocation ||
        (access.flags != 0 && access.flags != kReadWrite)) {
      return kInvalidValue;
    }
    const int status =
        gpemu_cuda_pool_set_access(pool, access.location.id, access.flags == kReadWrite ? 1 : 0);
    if (status != kSuccess) {
      return status;
    }
  }
  return kSuccess;
}

int get_pool_access(unsigned* flags, Pool pool, const Location* location) {
  if (flags == nullptr || pool == nullptr || location == nullptr ||
      location->type != kDeviceLocation) {
    return kInvalidValue;
  }
  int32_t read_write = 0;
  const int status = gpemu_cuda_pool_get_access(pool, location->id, &read_write);
  if (status == 0) {
    *flags = read_write != 0 ? kReadWrite : 0;
  }
  return status;
}
