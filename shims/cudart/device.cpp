// SPDX-License-Identifier: Apache-2.0
#include "cuda_stream.hpp"
#include "cudart.hpp"
#include "device_attribute.hpp"

namespace {

// Caches and shared-memory banks are advice that the hardware since Maxwell does not need.
int accept_advice(int value, int largest) {
  return value < 0 || value > largest ? kInvalidValue : kSuccess;
}

int check_device_flags(unsigned flags) {
  return (flags & ~kAllContextFlags) != 0 ? kInvalidValue : kSuccess;
}

}  // namespace

GPEMU_SHIM_EXPORT int cudaGetDeviceCount(int* count) {
  if (count == nullptr) {
    return record(kInvalidValue);
  }
  int32_t devices = 0;
  const int status = gpemu_cuda_device_count(&devices);
  *count = status == kSuccess ? devices : 0;
  return record(status == kSuccess && devices == 0 ? static_cast<int>(GPEMU_CUDA_ERROR_NO_DEVICE)
                                                   : status);
}

GPEMU_SHIM_EXPORT int cudaGetDevice(int* device) {
  return record(gpemu_cuda_current_device(device));
}

GPEMU_SHIM_EXPORT int cudaSetDevice(int device) {
  return record(gpemu_cuda_set_current_device(device));
}

GPEMU_SHIM_EXPORT int cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  if ((flags & ~kFlagsAreValid) != 0 || check_device_flags(device_flags) != kSuccess) {
    return record(kInvalidValue);
  }
  int32_t current = 0;
  int status = gpemu_cuda_current_device(&current);
  if (status == kSuccess) {
    status = gpemu_cuda_set_current_device(device);
  }
  if (status == kSuccess) {
    status = gpemu_cuda_set_current_device(current);
  }
  return record(status);
}

GPEMU_SHIM_EXPORT int cudaSetValidDevices(int* devices, int length) {
  int32_t count = 0;
  if (gpemu_cuda_device_count(&count) != kSuccess || length < 0 || length > count ||
      (devices == nullptr && length > 0)) {
    return record(kInvalidValue);
  }
  for (int index = 0; index < length; ++index) {
    const gpemu_cuda_device* info = nullptr;
    if (const int status = gpemu_cuda_get_device(devices[index], &info); status != kSuccess) {
      return record(status);
    }
  }
  // A thread would begin with the first of them.
  return length > 0 ? record(gpemu_cuda_set_current_device(devices[0])) : kSuccess;
}

GPEMU_SHIM_EXPORT int cudaSetDeviceFlags(unsigned flags) {
  return record(check_device_flags(flags));
}

GPEMU_SHIM_EXPORT int cudaGetDeviceFlags(unsigned* flags) {
  if (flags == nullptr) {
    return record(kInvalidValue);
  }
  *flags = kMapHost;  // always on; how the host waits is gpemu's choice
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudaDeviceSynchronize() {
  return in_context([] { return gpemu_cuda_device_synchronize(); });
}

GPEMU_SHIM_EXPORT int cudaDeviceReset() {
  int32_t device = 0;
  const int status = gpemu_cuda_current_device(&device);
  return record(status == kSuccess ? gpemu_cuda_context_reset(device) : status);
}

GPEMU_SHIM_EXPORT int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  return record(get_device_attribute(value, attribute, device));
}

GPEMU_SHIM_EXPORT int cudaDeviceGetPCIBusId(char* text, int capacity, int device) {
  return record(get_pci_bus_id(text, capacity, device));
}

GPEMU_SHIM_EXPORT int cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return record(find_device_by_pci_bus_id(device, text));
}

GPEMU_SHIM_EXPORT int cudaDeviceGetP2PAttribute(int* value, int attribute, int device, int peer) {
  return record(get_peer_attribute(value, attribute, device, peer));
}

GPEMU_SHIM_EXPORT int cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return record(gpemu_cuda_can_access_peer(device, peer, can));
}

GPEMU_SHIM_EXPORT int cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return in_context([=] {
    const gpemu_cuda_device* info = nullptr;
    const int status = gpemu_cuda_get_device(peer, &info);
    return status != kSuccess ? status
           : flags != 0       ? kInvalidValue
                              : static_cast<int>(gpemu_cuda_enable_peer_access(peer));
  });
}

GPEMU_SHIM_EXPORT int cudaDeviceDisablePeerAccess(int peer) {
  return in_context([=] { return gpemu_cuda_disable_peer_access(peer); });
}

GPEMU_SHIM_EXPORT int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return in_context([=] { return get_priority_range(least, greatest); });
}

GPEMU_SHIM_EXPORT int cudaDeviceGetLimit(size_t* value, int limit) {
  return in_context([=] { return gpemu_cuda_get_limit(limit, value); });
}

GPEMU_SHIM_EXPORT int cudaDeviceSetLimit(int limit, size_t value) {
  return in_context([=] { return gpemu_cuda_set_limit(limit, value); });
}

GPEMU_SHIM_EXPORT int cudaDeviceGetCacheConfig(int* config) {
  return record(put_result(config, kDefaultCache));
}

GPEMU_SHIM_EXPORT int cudaDeviceSetCacheConfig(int config) {
  return record(accept_advice(config, kLastCache));
}

GPEMU_SHIM_EXPORT int cudaDeviceGetSharedMemConfig(int* config) {
  return record(put_result(config, kFourByteBanks));
}

GPEMU_SHIM_EXPORT int cudaDeviceSetSharedMemConfig(int config) {
  return record(accept_advice(config, kLastBanks));
}

GPEMU_SHIM_EXPORT int cudaProfilerStart() {
  gpemu_cuda_mark(GPEMU_CUDA_MARK_PROFILER_START, "");
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudaProfilerStop() {
  gpemu_cuda_mark(GPEMU_CUDA_MARK_PROFILER_STOP, "");
  return kSuccess;
}

#if GPEMU_CUDA_MAJOR < 13
GPEMU_SHIM_EXPORT int cudaThreadSynchronize() {
  return cudaDeviceSynchronize();
}

GPEMU_SHIM_EXPORT int cudaThreadExit() {
  return cudaDeviceReset();
}

GPEMU_SHIM_EXPORT int cudaThreadGetLimit(size_t* value, int limit) {
  return cudaDeviceGetLimit(value, limit);
}

GPEMU_SHIM_EXPORT int cudaThreadSetLimit(int limit, size_t value) {
  return cudaDeviceSetLimit(limit, value);
}

GPEMU_SHIM_EXPORT int cudaThreadGetCacheConfig(int* config) {
  return record(put_result(config, kDefaultCache));
}

GPEMU_SHIM_EXPORT int cudaThreadSetCacheConfig(int config) {
  return record(accept_advice(config, kLastCache));
}
#endif
