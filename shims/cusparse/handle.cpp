// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cusparse.hpp"
#include "handle_table.hpp"

GPEMU_SHIM_EXPORT int cusparseCreate(void** handle) {
  if (handle == nullptr) {
    return kInvalidValue;
  }
  if (gpemu_cuda_ensure_context() != GPEMU_CUDA_SUCCESS) {
    return kNotInitialized;
  }
  *handle = alive<Sparse>().add(std::make_unique<Sparse>());
  return kSuccess;
}
GPEMU_SHIM_EXPORT int cusparseDestroy(const void* handle) {
  return alive<Sparse>().remove(handle) ? kSuccess : kNotInitialized;
}
GPEMU_SHIM_EXPORT int cusparseSetStream(const void* handle, gpemu_cuda_stream_handle stream) {
  Sparse* const sparse = find_object<Sparse>(handle);
  if (sparse == nullptr) {
    return kNotInitialized;
  }
  sparse->stream = stream;
  return kSuccess;
}
GPEMU_SHIM_EXPORT int cusparseGetStream(const void* handle, gpemu_cuda_stream_handle* stream) {
  const Sparse* const sparse = find_object<Sparse>(handle);
  if (sparse == nullptr) {
    return kNotInitialized;
  }
  if (stream == nullptr) {
    return kInvalidValue;
  }
  *stream = sparse->stream;
  return kSuccess;
}
GPEMU_SHIM_EXPORT int cusparseSetPointerMode(const void* handle, int mode) {
  Sparse* const sparse = find_object<Sparse>(handle);
  if (sparse == nullptr) {
    return kNotInitialized;
  }
  if (mode < 0 || mode > kLastPointerMode) {
    return kInvalidValue;
  }
  sparse->pointer_mode = mode;
  return kSuccess;
}
GPEMU_SHIM_EXPORT int cusparseGetPointerMode(const void* handle, int* mode) {
  const Sparse* const sparse = find_object<Sparse>(handle);
  if (sparse == nullptr) {
    return kNotInitialized;
  }
  if (mode == nullptr) {
    return kInvalidValue;
  }
  *mode = sparse->pointer_mode;
  return kSuccess;
}
