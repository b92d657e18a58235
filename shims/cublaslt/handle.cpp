// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cublaslt.hpp"

GPEMU_SHIM_EXPORT int cublasLtCreate(void** handle) {
  if (handle == nullptr) {
    return kInvalidValue;
  }
  if (const int status = status_of(gpemu_cuda_ensure_context()); status != kSuccess) {
    return status;
  }
  *handle = alive<Handle>().add(std::make_unique<Handle>());
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cublasLtDestroy(void* handle) {
  return alive<Handle>().remove(handle) ? kSuccess : kNotInitialized;
}
