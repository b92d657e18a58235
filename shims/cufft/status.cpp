// SPDX-License-Identifier: Apache-2.0
#include "abi.hpp"
#include "library_status.hpp"
#include "shim.hpp"

namespace {

// Source: cufft.h of cuFFT 11.3.3 and 12.2.0, CUFFT_VERSION.
#if GPEMU_CUDA_MAJOR == 12
constexpr int kVersion[] = {11, 3, 3};
#else
constexpr int kVersion[] = {12, 2, 0};
#endif

}  // namespace

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
