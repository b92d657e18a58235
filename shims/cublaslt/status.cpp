// SPDX-License-Identifier: Apache-2.0
#include "cublaslt.hpp"

namespace {

// The newest library of each CUDA.
#if GPEMU_CUDA_MAJOR == 12
constexpr int kVersion[] = {12, 8, 4};
constexpr size_t kCudartVersion = 12080;
#else
constexpr int kVersion[] = {13, 4, 1};
constexpr size_t kCudartVersion = 13020;
#endif

}  // namespace

int status_of(gpemu_cuda_status status) {
  switch (status) {
    case GPEMU_CUDA_SUCCESS:
      return kSuccess;
    case GPEMU_CUDA_ERROR_NOT_INITIALIZED:
    case GPEMU_CUDA_ERROR_NO_DEVICE:
      return kNotInitialized;
    case GPEMU_CUDA_ERROR_OUT_OF_MEMORY:
      return kAllocationFailed;
    default:
      return kExecutionFailed;
  }
}

GPEMU_SHIM_EXPORT size_t cublasLtGetVersion() {
  return size_t{kVersion[0]} * 10000 + size_t{kVersion[1]} * 100 + size_t{kVersion[2]};
}

GPEMU_SHIM_EXPORT size_t cublasLtGetCudartVersion() {
  return kCudartVersion;
}

GPEMU_SHIM_EXPORT int cublasLtGetProperty(int type, int* value) {
  if (type < 0 || type > 2 || value == nullptr) {
    return kInvalidValue;
  }
  *value = kVersion[type];
  return kSuccess;
}

GPEMU_SHIM_EXPORT const char* cublasLtGetStatusName(int status) {
  switch (status) {
    case kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kAllocationFailed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_UNKNOWN";
  }
}

GPEMU_SHIM_EXPORT const char* cublasLtGetStatusString(int status) {
  return cublasLtGetStatusName(status);
}
