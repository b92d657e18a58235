// SPDX-License-Identifier: Apache-2.0
#include "cufft.hpp"

GPEMU_SHIM_EXPORT int cufftGetVersion(int* version) {
  if (version == nullptr) {
    return kInvalidValue;
  }
  // Source: cufft.h of cuFFT 11.3.3 and 12.2.0, CUFFT_VERSION.
  *version = GPEMU_CUDA_MAJOR == 12 ? 11303 : 12200;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cufftGetProperty(int property, int* value) {
  int version = 0;
  if (value == nullptr || property < 0 || property > 2) {
    return kInvalidValue;
  }
  cufftGetVersion(&version);
  const int parts[] = {version / 1000, version / 100 % 10, version % 100};
  *value = parts[property];
  return kSuccess;
}
