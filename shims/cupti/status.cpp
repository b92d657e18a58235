// SPDX-License-Identifier: Apache-2.0
// There is no activity feed: profilers see that from the status and continue without GPU activity.
#include <chrono>

#include "abi.hpp"
#include "shim.hpp"

GPEMU_SHIM_EXPORT int cuptiGetVersion(uint32_t* version) {
  if (version == nullptr) {
    return kInvalidParameter;
  }
  *version = kVersion;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cuptiGetResultString(int result, const char** text) {
  if (text == nullptr) {
    return kInvalidParameter;
  }
  switch (result) {
    case kSuccess:
      *text = "CUPTI_SUCCESS";
      return kSuccess;
    case kInvalidParameter:
      *text = "CUPTI_ERROR_INVALID_PARAMETER";
      return kSuccess;
    case kNotInitialized:
      *text = "CUPTI_ERROR_NOT_INITIALIZED";
      return kSuccess;
    case kNotSupported:
      *text = "CUPTI_ERROR_NOT_SUPPORTED";
      return kSuccess;
    case kUnknown:
      *text = "CUPTI_ERROR_UNKNOWN";
      return kSuccess;
    default:
      return kInvalidParameter;
  }
}

GPEMU_SHIM_EXPORT int cuptiGetTimestamp(uint64_t* nanoseconds) {
  if (nanoseconds == nullptr) {
    return kInvalidParameter;
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  *nanoseconds =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  return kSuccess;
}
