// SPDX-License-Identifier: Apache-2.0
// A process has one context per device: those that a program creates are the primary one too.

#include "cuda.hpp"
#include "cuda_stream.hpp"

namespace {

/// Runs a call on the device of a context.
template <typename Call>
int with_device(Context context, Call&& call) {
  Device device = -1;
  const int status = device_of(context, &device);
  return status == kSuccess ? call(device) : status;
}

int create(Context* context, Device device) {
  if (context == nullptr) {
    return kInvalidValue;
  }
  int status = gpemu_cuda_context_retain(device);
  if (status == kSuccess) {
    status = gpemu_cuda_context_push(device);
  }
  if (status == kSuccess) {
    *context = context_of(device);
  }
  return status;
}

int destroy(Context context) {
  if (context == nullptr) {
    return kInvalidValue;
  }
  return with_device(context, [](Device device) {
    int32_t current = -1;
    int status = gpemu_cuda_context_current(&current);
    if (status == kSuccess && current == device) {
      status = gpemu_cuda_context_pop(&current);
    }
    return status == kSuccess ? gpemu_cuda_context_release(device) : status;
  });
}

int pop(Context* context) {
  int32_t device = -1;
  const int status = gpemu_cuda_context_pop(&device);
  if (status == kSuccess && context != nullptr) {
    *context = context_of(device);
  }
  return status;
}

int push(Context context) {
  return context == nullptr ? kInvalidValue : with_device(context, [](Device device) {
    return static_cast<int>(gpemu_cuda_context_push(device));
  });
}

/// Runs a call on the device of a peer's context. Errors: INVALID_CONTEXT, also for none.
template <typename Call>
int with_peer(Context peer, Call&& call) {
  return peer == nullptr ? static_cast<int>(GPEMU_CUDA_ERROR_INVALID_CONTEXT)
                         : with_device(peer, call);
}

// How the host waits (the lowest three bits) is gpemu's choice; mapping host memory is always on.
int check_flags(unsigned flags) {
  return (flags & ~kAllContextFlags) != 0 ? kInvalidValue : kSuccess;
}

}  // namespace

GPEMU_SHIM_EXPORT int cuDevicePrimaryCtxRetain(Context* context, Device device) {
  return context == nullptr
             ? kInvalidValue
             : put_result(gpemu_cuda_context_retain(device), context, context_of(device));
}

GPEMU_SHIM_EXPORT int cuDevicePrimaryCtxRelease(Device device) {
  return gpemu_cuda_context_release(device);
}

GPEMU_SHIM_EXPORT int cuDevicePrimaryCtxRelease_v2(Device device) {
  return gpemu_cuda_context_release(device);
}

GPEMU_SHIM_EXPORT int cuDevicePrimaryCtxReset(Device device) {
  return gpemu_cuda_context_reset(device);
}

GPEMU_SHIM_EXPORT int cuDevicePrimaryCtxReset_v2(Device device) {
  return gpemu_cuda_context_reset(device);
}

GPEMU_SHIM_EXPORT int cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  int32_t is_active = 0;
  const int status = flags == nullptr || active == nullptr
                         ? kInvalidValue
                         : gpemu_cuda_context_active(device, &is_active);
  if (status == kSuccess) {
    *flags = 0;
    *active = is_active;
  }
  return status;
}

// Since its second version, it takes the flags of an active context, too. Source: an H200, driver
// 580.159.
GPEMU_SHIM_EXPORT int cuDevicePrimaryCtxSetFlags_v2(Device device, unsigned flags) {
  const gpemu_cuda_device* info = nullptr;
  const int status = gpemu_cuda_get_device(device, &info);
  return status == kSuccess ? check_flags(flags) : status;
}

GPEMU_SHIM_EXPORT int cuDevicePrimaryCtxSetFlags(Device device, unsigned flags) {
  int32_t active = 0;
  const int status = cuDevicePrimaryCtxSetFlags_v2(device, flags);
  if (status != kSuccess || gpemu_cuda_context_active(device, &active) != kSuccess) {
    return status;
  }
  return active != 0 ? kPrimaryContextActive : kSuccess;
}

GPEMU_SHIM_EXPORT int cuCtxCreate(Context* context, unsigned flags, Device device) {
  return check_flags(flags) != kSuccess ? kInvalidValue : create(context, device);
}

GPEMU_SHIM_EXPORT int cuCtxCreate_v2(Context* context, unsigned flags, Device device) {
  return cuCtxCreate(context, flags, device);
}

GPEMU_SHIM_EXPORT int cuCtxCreate_v3(Context* context, const void* /*affinities*/,
                                     int affinity_count, unsigned flags, Device device) {
  return affinity_count > 0 ? not_supported("cuCtxCreate with execution affinity")
                            : cuCtxCreate(context, flags, device);
}

GPEMU_SHIM_EXPORT int cuCtxCreate_v4(Context* context, const void* parameters, unsigned flags,
                                     Device device) {
  return parameters != nullptr ? not_supported("cuCtxCreate with parameters")
                               : cuCtxCreate(context, flags, device);
}

GPEMU_SHIM_EXPORT int cuCtxDestroy(Context context) {
  return destroy(context);
}

GPEMU_SHIM_EXPORT int cuCtxDestroy_v2(Context context) {
  return destroy(context);
}

GPEMU_SHIM_EXPORT int cuCtxPushCurrent(Context context) {
  return push(context);
}

GPEMU_SHIM_EXPORT int cuCtxPushCurrent_v2(Context context) {
  return push(context);
}

GPEMU_SHIM_EXPORT int cuCtxPopCurrent(Context* context) {
  return pop(context);
}

GPEMU_SHIM_EXPORT int cuCtxPopCurrent_v2(Context* context) {
  return pop(context);
}

GPEMU_SHIM_EXPORT int cuCtxSetCurrent(Context context) {
  return with_device(context, [](Device device) {
    return static_cast<int>(gpemu_cuda_context_set_current(device));
  });
}

GPEMU_SHIM_EXPORT int cuCtxGetCurrent(Context* context) {
  int32_t device = -1;
  const int status = gpemu_cuda_context_current(&device);
  return put_result(status, context, context_of(device));
}

GPEMU_SHIM_EXPORT int cuCtxGetDevice(Device* device) {
  return in_context([=] {
    int32_t current = -1;
    const int status = gpemu_cuda_context_current(&current);
    return put_result(status, device, current);
  });
}

GPEMU_SHIM_EXPORT int cuCtxGetDevice_v2(Device* device, Context context) {
  return context == nullptr ? cuCtxGetDevice(device) : with_device(context, [=](Device found) {
    return put_result(kSuccess, device, found);
  });
}

GPEMU_SHIM_EXPORT int cuCtxSynchronize() {
  return in_context([] { return gpemu_cuda_device_synchronize(); });
}

GPEMU_SHIM_EXPORT int cuCtxGetFlags(unsigned* flags) {
  return in_context([=] { return put_result(kSuccess, flags, 0U); });
}

GPEMU_SHIM_EXPORT int cuCtxSetFlags(unsigned flags) {
  return in_context([=] { return check_flags(flags); });
}

GPEMU_SHIM_EXPORT int cuCtxGetId(Context context, unsigned long long* id) {
  if (context == nullptr) {
    return in_context([=] {
      int32_t device = -1;
      const int status = gpemu_cuda_context_current(&device);
      return put_result(status, id, device + 1);
    });
  }
  return with_device(context, [=](Device device) { return put_result(kSuccess, id, device + 1); });
}

GPEMU_SHIM_EXPORT int cuCtxGetApiVersion(Context context, unsigned* version) {
  const auto get = [=] { return put_result(kSuccess, version, kContextVersion); };
  return context == nullptr ? in_context(get) : with_device(context, [=](Device) { return get(); });
}

GPEMU_SHIM_EXPORT int cuCtxGetLimit(size_t* value, int limit) {
  return in_context([=] { return gpemu_cuda_get_limit(limit, value); });
}

GPEMU_SHIM_EXPORT int cuCtxSetLimit(int limit, size_t value) {
  return in_context([=] { return gpemu_cuda_set_limit(limit, value); });
}

GPEMU_SHIM_EXPORT int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return in_context([=] { return get_priority_range(least, greatest); });
}

// Caches and shared-memory banks are advice that the hardware since Maxwell does not need.
GPEMU_SHIM_EXPORT int cuCtxGetCacheConfig(int* config) {
  return in_context([=] { return put_result(kSuccess, config, kDefaultCache); });
}

GPEMU_SHIM_EXPORT int cuCtxSetCacheConfig(int config) {
  return in_context([=] { return config < 0 || config > kLastCache ? kInvalidValue : kSuccess; });
}

GPEMU_SHIM_EXPORT int cuCtxGetSharedMemConfig(int* config) {
  return in_context([=] { return put_result(kSuccess, config, kFourByteBanks); });
}

GPEMU_SHIM_EXPORT int cuCtxSetSharedMemConfig(int config) {
  return in_context([=] { return config < 0 || config > kLastBanks ? kInvalidValue : kSuccess; });
}

GPEMU_SHIM_EXPORT int cuCtxEnablePeerAccess(Context peer, unsigned flags) {
  return in_context([=] {
    return flags != 0 ? kInvalidValue : with_peer(peer, [](Device device) {
      return static_cast<int>(gpemu_cuda_enable_peer_access(device));
    });
  });
}

GPEMU_SHIM_EXPORT int cuCtxDisablePeerAccess(Context peer) {
  return in_context([=] {
    return with_peer(peer, [](Device device) {
      return static_cast<int>(gpemu_cuda_disable_peer_access(device));
    });
  });
}
