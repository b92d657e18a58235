// SPDX-License-Identifier: Apache-2.0
#include "cusolver.hpp"

GPEMU_SHIM_EXPORT int cusolverGetVersion(int* version) {
  if (version == nullptr) {
    return kInvalidValue;
  }
  // Source: cusolver_common.h of cuSOLVER 11.7.3 and 12.2.0, CUSOLVER_VERSION.
  *version = GPEMU_CUDA_MAJOR == 12 ? 11703 : 12200;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cusolverGetProperty(int type, int* value) {
  int version = 0;
  if (type < 0 || type > 2 || value == nullptr) {
    return kInvalidValue;
  }
  cusolverGetVersion(&version);
  const int parts[] = {version / 1000, version / 100 % 10, version % 100};
  *value = parts[type];
  return kSuccess;
}
