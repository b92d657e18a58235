// SPDX-License-Identifier: Apache-2.0
#include "abi.hpp"
#include "shim.hpp"

GPEMU_SHIM_EXPORT int cusparseLtGetVersion(const void*, int* version) {
  if (version == nullptr) {
    return kInvalidValue;
  }
  *version = 801;  // Source: cusparseLt.h of 0.8.1, CUSPARSELT_VERSION
  return kSuccess;
}
