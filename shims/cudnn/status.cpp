// SPDX-License-Identifier: Apache-2.0
#include "cuda_version_abi.hpp"
#include "cudnn.hpp"
#include "library_status.hpp"

int status_of(gpemu_cuda_status status) {
  return library_status(status, {kNotInitialized, kDeviceAllocationFailed, kExecutionFailed});
}

GPEMU_SHIM_EXPORT size_t cudnnGetVersion() {
  return size_t{kVersion[0]} * 10000 + size_t{kVersion[1]} * 100 + size_t{kVersion[2]};
}

GPEMU_SHIM_EXPORT size_t cudnnGetMaxDeviceVersion() {
  return 1210;  // compute capability 12.1
}

GPEMU_SHIM_EXPORT size_t cudnnGetCudartVersion() {
  // One shared object serves CUDA 12 and 13; callers compare the major number at most.
  return kCuda13Version;
}

GPEMU_SHIM_EXPORT int cudnnGetProperty(int type, int* value) {
  return put_property(kVersion, type, value, kBadParam);
}

GPEMU_SHIM_EXPORT const char* cudnnGetErrorString(int status) {
  switch (status) {
    case kNullPointer:
      return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case kNotFinalized:
      return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case kSizeInsufficient:
      return "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT";
    case kAttributeType:
      return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case kDeviceAllocationFailed:
      return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
    default:
      break;
  }
  switch (status / 1000) {  // the thousands are the category
    case 0:
      return status == 0 ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_UNKNOWN";
    case 1:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case 2:
      return "CUDNN_STATUS_BAD_PARAM";
    case 3:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case 4:
      return "CUDNN_STATUS_INTERNAL_ERROR";
    case 5:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_STATUS_UNKNOWN";
  }
}

// The status is the only message.
GPEMU_SHIM_EXPORT void cudnnGetLastErrorString(char* message, size_t size) {
  if (message != nullptr && size > 0) {
    message[0] = '\0';
  }
}
