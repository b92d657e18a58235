// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "cudart.hpp"
#include "device_attribute.hpp"

namespace {

template <typename Type, size_t Length>
void fill(Type (&field)[Length], int attribute, int device) {
  for (size_t index = 0; attribute != 0 && index < Length; ++index) {
    int value = 0;
    (void)get_device_attribute(&value, attribute + static_cast<int>(index), device);
    field[index] = static_cast<Type>(value);
  }
}

int get_properties(Properties* properties, int device) {
  const gpemu_cuda_device* info = nullptr;
  if (const int status = gpemu_cuda_get_device(device, &info); status != kSuccess) {
    return status;
  }
  *properties = {};
#define P(type, name, length, attribute) fill(properties->name, attribute, device);
#include "properties.def"
#undef P
  std::memcpy(properties->name, info->name, sizeof(properties->name));
  std::memcpy(properties->uuid, info->uuid, sizeof(properties->uuid));
  properties->totalGlobalMem[0] = info->total_memory;
  return kSuccess;
}

}  // namespace

#if GPEMU_CUDA_MAJOR < 13
GPEMU_SHIM_EXPORT int cudaGetDeviceProperties_v2(Properties* properties, int device) {
  return record(properties == nullptr ? kInvalidValue : get_properties(properties, device));
}

// Programs compiled before CUDA 12 pass a structure that ends earlier.
GPEMU_SHIM_EXPORT int cudaGetDeviceProperties(void* properties, int device) {
  Properties all;
  const int status = properties == nullptr ? kInvalidValue : get_properties(&all, device);
  if (status == kSuccess) {
    std::memcpy(properties, &all, offsetof(Properties, hostRegisterSupported));
  }
  return record(status);
}
#else
GPEMU_SHIM_EXPORT int cudaGetDeviceProperties(Properties* properties, int device) {
  return record(properties == nullptr ? kInvalidValue : get_properties(properties, device));
}
#endif

GPEMU_SHIM_EXPORT int cudaChooseDevice(int* device, const Properties* wanted) {
  if (device == nullptr || wanted == nullptr) {
    return record(kInvalidValue);
  }
  int32_t count = 0;
  if (const int status = gpemu_cuda_device_count(&count); status != kSuccess) {
    return record(status);
  }
  // The first device with at least the requested memory and compute capability, else the first.
  int chosen = 0;
  for (int index = 0; index < count; ++index) {
    const gpemu_cuda_device* info = nullptr;
    if (gpemu_cuda_get_device(index, &info) == kSuccess &&
        info->total_memory >= wanted->totalGlobalMem[0] &&
        info->major * 10 + info->minor >= wanted->major[0] * 10 + wanted->minor[0]) {
      chosen = index;
      break;
    }
  }
  *device = chosen;
  return kSuccess;
}
