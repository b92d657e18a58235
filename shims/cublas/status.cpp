// SPDX-License-Identifier: Apache-2.0
#include "cublas.hpp"

namespace {

// CUBLAS_VERSION = major * 10000 + minor * 100 + patch, of the newest library of each CUDA.
#if GPEMU_CUDA_MAJOR == 12
constexpr int kVersion[] = {12, 8, 4};
constexpr size_t kCudartVersion = 12080;
#else
constexpr int kVersion[] = {13, 4, 1};
constexpr size_t kCudartVersion = 13020;
#endif

struct StatusText {
  int status;
  const char* name;
  const char* text;
};

constexpr StatusText kStatusTexts[] = {
    {0, "CUBLAS_STATUS_SUCCESS", "the function completed with success"},
    {1, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {3, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {7, "CUBLAS_STATUS_INVALID_VALUE", "an unsupported value or parameter was passed"},
    {8, "CUBLAS_STATUS_ARCH_MISMATCH", "the device lacks a feature that is needed"},
    {11, "CUBLAS_STATUS_MAPPING_ERROR", "an access to GPU memory space failed"},
    {13, "CUBLAS_STATUS_EXECUTION_FAILED", "the GPU program failed to execute"},
    {14, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {15, "CUBLAS_STATUS_NOT_SUPPORTED", "the functionality is not supported"},
    {16, "CUBLAS_STATUS_LICENSE_ERROR", "the license check failed"},
};

const StatusText* text_of(int status) {
  for (const StatusText& text : kStatusTexts) {
    if (text.status == status) {
      return &text;
    }
  }
  return nullptr;
}

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

GPEMU_SHIM_EXPORT int cublasGetVersion_v2(void* /*handle*/, int* version) {
  if (version == nullptr) {
    return kInvalidValue;
  }
  *version = kVersion[0] * 10000 + kVersion[1] * 100 + kVersion[2];
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cublasGetProperty(int type, int* value) {
  if (type < 0 || type > 2 || value == nullptr) {
    return kInvalidValue;
  }
  *value = kVersion[type];
  return kSuccess;
}

GPEMU_SHIM_EXPORT size_t cublasGetCudartVersion() {
  return kCudartVersion;
}

GPEMU_SHIM_EXPORT const char* cublasGetStatusName(int status) {
  const StatusText* const text = text_of(status);
  return text == nullptr ? "CUBLAS_STATUS_UNKNOWN" : text->name;
}

GPEMU_SHIM_EXPORT const char* cublasGetStatusString(int status) {
  const StatusText* const text = text_of(status);
  return text == nullptr ? "unknown status" : text->text;
}
