// SPDX-License-Identifier: Apache-2.0
#include "abi.hpp"
#include "library_status.hpp"
#include "shim.hpp"

GPEMU_SHIM_EXPORT int cufftGetVersion(int* version) {
  if (version == nullptr) {
    return kInvalidValue;
  }
  *version = kVersion[0] * 1000 + kVersion[1] * 100 + kVersion[2];
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cufftGetProperty(int type, int* value) {
  return put_property(kVersion, type, value, kInvalidValue);
}
