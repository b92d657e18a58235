// SPDX-License-Identifier: Apache-2.0
#include "abi.hpp"
#include "shim.hpp"

GPEMU_SHIM_EXPORT int curandGetVersion(int* version) {
  if (version == nullptr) {
    return kOutOfRange;
  }
  *version = kVersion;
  return kSuccess;
}
