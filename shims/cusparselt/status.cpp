// SPDX-License-Identifier: Apache-2.0
#include "abi.hpp"
#include "shim.hpp"

GPEMU_SHIM_EXPORT int cusparseLtGetVersion(const void*, int* version) {
  if (version == nullptr) {
    return kInvalidValue;
  }
  *version = kVersion;
  return kSuccess;
}
