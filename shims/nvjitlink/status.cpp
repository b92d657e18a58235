// SPDX-License-Identifier: Apache-2.0
#include "abi.hpp"
#include "shim.hpp"

GPEMU_SHIM_EXPORT int nvJitLinkVersion(unsigned* major, unsigned* minor) {
  if (major == nullptr || minor == nullptr) {
    return kNullInput;
  }
  // Source: the linkers that PyTorch 2.8 and 2.15 ask for are of CUDA 12.8 and 13.
  *major = GPEMU_CUDA_MAJOR;
  *minor = GPEMU_CUDA_MAJOR == 12 ? 8 : 2;
  return kSuccess;
}
