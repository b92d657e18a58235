// SPDX-License-Identifier: Apache-2.0
#include "cublaslt.hpp"
#include "cuda_version_abi.hpp"
#include "library_status.hpp"

namespace {

struct StatusText {
  int status;
  const char* name;
  const char* text;
};

constexpr StatusText kStatusTexts[] = {
    {kSuccess, "CUBLAS_STATUS_SUCCESS", "the function completed with success"},
    {kNotInitialized, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {kAllocationFailed, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {kInvalidValue, "CUBLAS_STATUS_INVALID_VALUE", "an unsupported value or parameter was passed"},
    {kArchMismatch, "CUBLAS_STATUS_ARCH_MISMATCH", "the device lacks a feature that is needed"},
    {kMappingError, "CUBLAS_STATUS_MAPPING_ERROR", "an access to GPU memory space failed"},
    {kExecutionFailed, "CUBLAS_STATUS_EXECUTION_FAILED", "the GPU program failed to execute"},
    {kInternalError, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {kNotSupported, "CUBLAS_STATUS_NOT_SUPPORTED", "the functionality is not supported"},
    {kLicenseError, "CUBLAS_STATUS_LICENSE_ERROR", "the license check failed"},
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
  return library_status(status, {kNotInitialized, kAllocationFailed, kExecutionFailed});
}

GPEMU_SHIM_EXPORT size_t cublasLtGetVersion() {
  return size_t{kVersion[0]} * 10000 + size_t{kVersion[1]} * 100 + size_t{kVersion[2]};
}

GPEMU_SHIM_EXPORT size_t cublasLtGetCudartVersion() {
  return kCudartVersion;
}

GPEMU_SHIM_EXPORT int cublasLtGetProperty(int type, int* value) {
  return put_property(kVersion, type, value, kInvalidValue);
}

GPEMU_SHIM_EXPORT const char* cublasLtGetStatusName(int status) {
  const StatusText* const text = text_of(status);
  return text == nullptr ? "CUBLAS_STATUS_UNKNOWN" : text->name;
}

GPEMU_SHIM_EXPORT const char* cublasLtGetStatusString(int status) {
  const StatusText* const text = text_of(status);
  return text == nullptr ? "unknown status" : text->text;
}
