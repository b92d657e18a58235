// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "abi.hpp"
#include "stream_twins.hpp"

/// Returns a status of gpemu/cuda.h as the driver's, which lacks some of the runtime's.
constexpr int driver_status(int status) {
  switch (status) {
    case GPEMU_CUDA_ERROR_INVALID_CONFIGURATION:
    case GPEMU_CUDA_ERROR_INVALID_MEMCPY_DIRECTION:
      return GPEMU_CUDA_ERROR_INVALID_VALUE;
    case GPEMU_CUDA_ERROR_INVALID_SYMBOL:
      return GPEMU_CUDA_ERROR_NOT_FOUND;
    case GPEMU_CUDA_ERROR_INVALID_DEVICE_FUNCTION:
      return GPEMU_CUDA_ERROR_INVALID_HANDLE;
    default:
      return status;
  }
}

/// Counts an unsupported feature of a supported function.
inline int not_supported(const char* what) {
  gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, what);
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

/// Puts a value that a function of gpemu/cuda.h writes as another type.
template <typename To, typename From>
int put_result(int status, To* to, From from) {
  if (to == nullptr) {
    return kInvalidValue;
  }
  if (status == kSuccess) {
    *to = static_cast<To>(from);
  }
  return status;
}

constexpr uintptr_t kContextBase = 0x67706500;

inline Context context_of(Device device) {
  return device < 0 ? nullptr : reinterpret_cast<Context>(kContextBase + device);
}

/// Yields the device of a context, -1 for none. Errors: INVALID_CONTEXT.
inline int device_of(Context context, Device* device) {
  if (context == nullptr) {
    *device = -1;
    return kSuccess;
  }
  int32_t count = 0;
  const int status = gpemu_cuda_device_count(&count);
  const uintptr_t index = reinterpret_cast<uintptr_t>(context) - kContextBase;
  if (status != kSuccess || index >= static_cast<uintptr_t>(count)) {
    return status != kSuccess ? status : static_cast<int>(GPEMU_CUDA_ERROR_INVALID_CONTEXT);
  }
  *device = static_cast<Device>(index);
  return kSuccess;
}

/// Errors: INVALID_CONTEXT if the thread has no current context.
inline int require_context() {
  int32_t device = -1;
  const int status = gpemu_cuda_context_current(&device);
  return status == kSuccess && device < 0 ? static_cast<int>(GPEMU_CUDA_ERROR_INVALID_CONTEXT)
                                          : status;
}

/// Runs a call with the thread's current context, which must exist.
template <typename Call>
int in_context(Call&& call) {
  const int status = require_context();
  return status == kSuccess ? driver_status(call()) : status;
}

/// Describes a copy of gpemu/cuda.h. Errors: INVALID_VALUE; NOT_SUPPORTED for arrays.
int describe_copy(const Copy3D* from, gpemu_cuda_copy* to);
