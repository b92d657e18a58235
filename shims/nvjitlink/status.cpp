// SPDX-License-Identifier: Apache-2.0
#include "abi.hpp"
#include "cuda_version_abi.hpp"
#include "shim.hpp"

GPEMU_SHIM_EXPORT int nvJitLinkVersion(unsigned* major, unsigned* minor) {
  if (major == nullptr || minor == nullptr) {
    return kNullInput;
  }
  // The linkers have the version of their CUDA.
  *major = kCudartVersion / 1000;
  *minor = kCudartVersion % 1000 / 10;
  return kSuccess;
}
