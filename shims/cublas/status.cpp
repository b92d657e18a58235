// SPDX-License-Identifier: Apache-2.0
#include "cublas.hpp"
#include "library_status.hpp"

// Both libraries have one version and one set of statuses, which cuBLASLt keeps.
extern "C" {
size_t cublasLtGetVersion();
size_t cublasLtGetCudartVersion();
int cublasLtGetProperty(int type, int* value);
const char* cublasLtGetStatusName(int status);
const char* cublasLtGetStatusString(int status);
}

int status_of(gpemu_cuda_status status) {
  return library_status(status, {kNotInitialized, kAllocationFailed, kExecutionFailed});
}

GPEMU_SHIM_EXPORT int cublasGetVersion_v2(void* /*handle*/, int* version) {
  if (version == nullptr) {
    return kInvalidValue;
  }
  *version = static_cast<int>(cublasLtGetVersion());
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cublasGetProperty(int type, int* value) {
  return cublasLtGetProperty(type, value);
}

GPEMU_SHIM_EXPORT size_t cublasGetCudartVersion() {
  return cublasLtGetCudartVersion();
}

GPEMU_SHIM_EXPORT const char* cublasGetStatusName(int status) {
  return cublasLtGetStatusName(status);
}

GPEMU_SHIM_EXPORT const char* cublasGetStatusString(int status) {
  return cublasLtGetStatusString(status);
}
