// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <iterator>

#include <climits>

#include "cuda.hpp"
#include "device_attribute.hpp"

namespace {

int get_uuid(uint8_t* uuid, Device device) {
  const gpemu_cuda_device* info = nullptr;
  const int status = uuid == nullptr ? kInvalidValue : gpemu_cuda_get_device(device, &info);
  if (status == kSuccess) {
    std::memcpy(uuid, info->uuid, sizeof(info->uuid));
  }
  return status;
}

uint64_t total_memory(Device device, int* status) {
  const gpemu_cuda_device* info = nullptr;
  *status = gpemu_cuda_get_device(device, &info);
  return *status == kSuccess ? info->total_memory : 0;
}

}  // namespace

GPEMU_SHIM_EXPORT int cuInit(unsigned flags) {
  return flags != 0 ? kInvalidValue : gpemu_cuda_init();
}

GPEMU_SHIM_EXPORT int cuDeviceGetCount(int* count) {
  int32_t devices = 0;
  const int status = gpemu_cuda_device_count(&devices);
  // Without devices the count is 0; only cuInit fails.
  return put_result(status == GPEMU_CUDA_ERROR_NO_DEVICE ? kSuccess : status, count, devices);
}

GPEMU_SHIM_EXPORT int cuDeviceGet(Device* device, int ordinal) {
  const gpemu_cuda_device* info = nullptr;
  return put_result(gpemu_cuda_get_device(ordinal, &info), device, ordinal);
}

GPEMU_SHIM_EXPORT int cuDeviceGetName(char* name, int capacity, Device device) {
  const gpemu_cuda_device* info = nullptr;
  const int status =
      name == nullptr || capacity < 1 ? kInvalidValue : gpemu_cuda_get_device(device, &info);
  if (status == kSuccess) {
    const size_t length =
        std::min(strnlen(info->name, sizeof(info->name)), static_cast<size_t>(capacity) - 1);
    std::memcpy(name, info->name, length);
    name[length] = '\0';
  }
  return status;
}

GPEMU_SHIM_EXPORT int cuDeviceGetUuid(uint8_t* uuid, Device device) {
  return get_uuid(uuid, device);
}

GPEMU_SHIM_EXPORT int cuDeviceGetUuid_v2(uint8_t* uuid, Device device) {
  return get_uuid(uuid, device);
}

GPEMU_SHIM_EXPORT int cuDeviceTotalMem_v2(size_t* bytes, Device device) {
  int status = kSuccess;
  const uint64_t total = total_memory(device, &status);
  return put_result(status, bytes, total);
}

GPEMU_SHIM_EXPORT int cuDeviceTotalMem(unsigned* bytes, Device device) {
  int status = kSuccess;
  const uint64_t total = total_memory(device, &status);
  return put_result(status, bytes, std::min<uint64_t>(total, UINT_MAX));
}

GPEMU_SHIM_EXPORT int cuDeviceGetAttribute(int* value, int attribute, Device device) {
  return get_device_attribute(value, attribute, device);
}

GPEMU_SHIM_EXPORT int cuDeviceComputeCapability(int* major, int* minor, Device device) {
  const gpemu_cuda_device* info = nullptr;
  const int status =
      major == nullptr || minor == nullptr ? kInvalidValue : gpemu_cuda_get_device(device, &info);
  if (status == kSuccess) {
    *major = info->major;
    *minor = info->minor;
  }
  return status;
}

GPEMU_SHIM_EXPORT int cuDeviceGetProperties(Properties* properties, Device device) {
  const gpemu_cuda_device* info = nullptr;
  const int status = properties == nullptr ? kInvalidValue : gpemu_cuda_get_device(device, &info);
  if (status != kSuccess) {
    return status;
  }
  // The attributes that hold the fields in order.
  static constexpr int kAttributes[] = {kDeviceMaxThreadsPerBlock,
                                        kDeviceMaxBlockDimX,
                                        kDeviceMaxBlockDimY,
                                        kDeviceMaxBlockDimZ,
                                        kDeviceMaxGridDimX,
                                        kDeviceMaxGridDimY,
                                        kDeviceMaxGridDimZ,
                                        kDeviceMaxSharedMemoryPerBlock,
                                        kDeviceTotalConstantMemory,
                                        kDeviceWarpSize,
                                        kDeviceMaxPitch,
                                        kDeviceMaxRegistersPerBlock,
                                        kDeviceClockRate,
                                        kDeviceTextureAlignment};
  static_assert(sizeof(Properties) == sizeof(kAttributes));
  int values[std::size(kAttributes)] = {};
  for (size_t index = 0; index < std::size(kAttributes); ++index) {
    (void)get_device_attribute(&values[index], kAttributes[index], device);
  }
  std::memcpy(properties, values, sizeof(values));
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cuDeviceGetPCIBusId(char* text, int capacity, Device device) {
  return get_pci_bus_id(text, capacity, device);
}

GPEMU_SHIM_EXPORT int cuDeviceGetByPCIBusId(Device* device, const char* text) {
  return find_device_by_pci_bus_id(device, text);
}

GPEMU_SHIM_EXPORT int cuDeviceCanAccessPeer(int* can, Device device, Device peer) {
  return can == nullptr ? kInvalidValue : gpemu_cuda_can_access_peer(device, peer, can);
}

GPEMU_SHIM_EXPORT int cuDeviceGetP2PAttribute(int* value, int attribute, Device device,
                                              Device peer) {
  return get_peer_attribute(value, attribute, device, peer);
}

GPEMU_SHIM_EXPORT int cuDeviceGetDefaultMemPool(Pool* pool, Device device) {
  return pool == nullptr ? kInvalidValue : gpemu_cuda_pool_default(device, pool);
}

GPEMU_SHIM_EXPORT int cuDeviceGetMemPool(Pool* pool, Device device) {
  return pool == nullptr ? kInvalidValue : gpemu_cuda_pool_current(device, pool);
}

GPEMU_SHIM_EXPORT int cuDeviceSetMemPool(Device device, Pool pool) {
  return pool == nullptr ? kInvalidValue : gpemu_cuda_pool_set_current(device, pool);
}

GPEMU_SHIM_EXPORT int cuProfilerStart() {
  return in_context([] {
    gpemu_cuda_mark(GPEMU_CUDA_MARK_PROFILER_START, "");
    return kSuccess;
  });
}

GPEMU_SHIM_EXPORT int cuProfilerStop() {
  return in_context([] {
    gpemu_cuda_mark(GPEMU_CUDA_MARK_PROFILER_STOP, "");
    return kSuccess;
  });
}
