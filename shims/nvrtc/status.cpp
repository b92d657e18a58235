// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "abi.hpp"
#include "cuda_version_abi.hpp"
#include "shim.hpp"

GPEMU_SHIM_EXPORT int nvrtcVersion(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) {
    return kInvalidInput;
  }
  // The compilers have the version of their CUDA.
  *major = kCudartVersion / 1000;
  *minor = kCudartVersion % 1000 / 10;
  return kSuccess;
}

GPEMU_SHIM_EXPORT const char* nvrtcGetErrorString(int result) {
  static constexpr const char* kNames[] = {
      "NVRTC_SUCCESS",
      "NVRTC_ERROR_OUT_OF_MEMORY",
      "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
      "NVRTC_ERROR_INVALID_INPUT",
      "NVRTC_ERROR_INVALID_PROGRAM",
      "NVRTC_ERROR_INVALID_OPTION",
      "NVRTC_ERROR_COMPILATION",
      "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
      "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
      "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
      "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
      "NVRTC_ERROR_INTERNAL_ERROR",
  };
  return result >= 0 && result < static_cast<int>(std::size(kNames)) ? kNames[result]
                                                                     : "NVRTC_ERROR unknown";
}
