// SPDX-License-Identifier: Apache-2.0
#include "status.hpp"

#include <iterator>

const char*& last_warning() {
  thread_local const char* warning = "";
  return warning;
}

int nccl_status(gpemu_cuda_status status) {
  switch (status) {
    case GPEMU_CUDA_SUCCESS:
      return kSuccess;
    case GPEMU_CUDA_ERROR_INVALID_VALUE:
    case GPEMU_CUDA_ERROR_INVALID_HANDLE:
      return kInvalidArgument;
    case GPEMU_CUDA_ERROR_INVALID_DEVICE:
      last_warning() = gpemu_cuda_comm_warning();
      return kInvalidUsage;
    case GPEMU_CUDA_ERROR_NOT_FOUND:
      last_warning() = "gpemu: another rank, or the process that made the unique id, has ended";
      return kRemoteError;
    case GPEMU_CUDA_ERROR_OPERATING_SYSTEM:
      return kSystemError;
    case GPEMU_CUDA_ERROR_NOT_SUPPORTED:
      last_warning() = "gpemu: NCCL needs all ranks in one node, and a clock that runs by itself";
      return kInvalidUsage;
    case GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
      last_warning() =
          "gpemu: one group's transfers in several streams cannot be captured in a CUDA graph";
      return kInvalidUsage;
    case GPEMU_CUDA_ERROR_ILLEGAL_STATE:
      last_warning() = "gpemu: the communicator was aborted";
      return kInvalidUsage;
    default:
      return kUnhandledCudaError;
  }
}

GPEMU_SHIM_EXPORT int ncclGetVersion(int* version) {
  if (version == nullptr) {
    return kInvalidArgument;
  }
  *version = kVersion;
  return kSuccess;
}

GPEMU_SHIM_EXPORT const char* ncclGetErrorString(int result) {
  static constexpr const char* kTexts[] = {
      "no error",
      "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
      "unhandled system error (run with NCCL_DEBUG=INFO for details)",
      "internal error - please report this issue to the NCCL developers",
      "invalid argument (run with NCCL_DEBUG=WARN for details)",
      "invalid usage (run with NCCL_DEBUG=WARN for details)",
      "remote process exited or there was a network error",
      "NCCL operation in progress",
      "NCCL operation timed out",
  };
  return result >= 0 && result < static_cast<int>(std::size(kTexts)) ? kTexts[result]
                                                                     : "unknown result code";
}
GPEMU_SHIM_EXPORT const char* ncclGetLastError(const void*) {
  return last_warning();
}

GPEMU_PROFILING_NAME(ncclGetVersion)
GPEMU_PROFILING_NAME(ncclGetErrorString)
GPEMU_PROFILING_NAME(ncclGetLastError)
