// SPDX-License-Identifier: Apache-2.0
#include "cusolver.hpp"
#include "library_status.hpp"

namespace {

// Source: cusolver_common.h of cuSOLVER 11.7.3 and 12.2.0, CUSOLVER_VERSION.
#if GPEMU_CUDA_MAJOR == 12
constexpr int kVersion[] = {11, 7, 3};
#else
constexpr int kVersion[] = {12, 2, 0};
#endif

}  // namespace

GPEMU_SHIM_EXPORT int cusolverGetVersion(int* version) {
  if (version == nullptr) {
    return kInvalidValue;
  }
  *version = kVersion[0] * 1000 + kVersion[1] * 100 + kVersion[2];
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cusolverGetProperty(int type, int* value) {
  return put_property(kVersion, type, value, kInvalidValue);
}
