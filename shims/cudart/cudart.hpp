// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "abi.hpp"
#include "stream_twins.hpp"

/// Records a status as the thread's last error, if it is one, and returns it.
inline int record(int status) {
  if (status != kSuccess) {
    gpemu_cuda_set_last_error(status);
  }
  return status;
}

/// Runs a call with the current device's context current, and records what it returns.
template <typename Call>
int in_context(Call&& call) {
  const int status = gpemu_cuda_ensure_context();
  return record(status == kSuccess ? call() : status);
}

/// Records and counts an unsupported feature of a supported function.
inline int not_supported(const char* what) {
  gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, what);
  return record(GPEMU_CUDA_ERROR_NOT_SUPPORTED);
}

/// Puts a value that is known. Errors: INVALID_VALUE.
inline int put_result(int* out, int value) {
  if (out == nullptr) {
    return kInvalidValue;
  }
  *out = value;
  return kSuccess;
}

/// Yields the kernel for a pointer: the host function of a registered kernel, or a cudaKernel_t.
inline int find_kernel(const void* function, Kernel* kernel) {
  const int status = gpemu_cuda_registered_kernel(function, kernel);
  if (status != GPEMU_CUDA_ERROR_INVALID_DEVICE_FUNCTION) {
    return status;
  }
  gpemu_cuda_kernel_info info{};
  const auto handle = static_cast<Kernel>(const_cast<void*>(function));
  if (gpemu_cuda_kernel_get_info(handle, &info) != kSuccess) {
    // The runtime of CUDA 13 takes other pointers for handles. Source: an H200, CUDA 13.0.
    const bool is_handle = GPEMU_CUDA_MAJOR >= 13 && function != nullptr;
    return is_handle ? static_cast<int>(GPEMU_CUDA_ERROR_INVALID_HANDLE) : status;
  }
  *kernel = handle;
  return kSuccess;
}

/// Describes a copy between pitched memory; arrays are not supported.
///
/// Errors: INVALID_VALUE, INVALID_MEMCPY_DIRECTION; NOT_SUPPORTED for arrays.
int describe_copy(const Copy3D* parameters, gpemu_cuda_copy* copy);

/// True for a value of cudaMemcpyKind.
inline bool is_copy_kind(int kind) {
  return kind >= GPEMU_CUDA_COPY_HOST_TO_HOST && kind <= GPEMU_CUDA_COPY_DEFAULT;
}
