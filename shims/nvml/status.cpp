// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <iterator>

#include "cuda_version_abi.hpp"
#include "nvml.hpp"

namespace nvml {
namespace {

// The texts of nvmlErrorString, in the order of nvmlReturn_t's numbers. Source: nvmlReturn_t, and
// nvidia-ml-py, which shows the same to users.
constexpr const char* kStatusTexts[] = {
    "Success",
    "Uninitialized",
    "Invalid Argument",
    "Not Supported",
    "Insufficient Permissions",
    "Already Initialized",
    "Not Found",
    "Insufficient Size",
    "Insufficient External Power",
    "Driver Not Loaded",
    "Timeout",
    "Interrupt Request Issue",
    "NVML Shared Library Not Found",
    "Function Not Found",
    "Corrupted infoROM",
    "GPU is lost",
    "GPU requires restart",
    "The operating system has blocked the request.",
    "Driver/library version mismatch",
    "In use by another client",
    "Insufficient Memory",
    "No data",
    "vGPU ECC not supported",
    "Insufficient Resources",
    "Frequency not supported",
    "Argument version mismatch",
    "Deprecated",
    "Not Ready",
    "GPU not found",
    "Invalid State",
    "Reset type not supported",
};

}  // namespace

int status_of(gpemu_status status) {
  switch (status) {
    case GPEMU_OK:
      return kSuccess;
    case GPEMU_ERROR_UNAVAILABLE:
      return kUninitialized;
    case GPEMU_ERROR_INVALID_ARGUMENT:
    case GPEMU_ERROR_NOT_FOUND:
      return kInvalidArgument;
    case GPEMU_ERROR_UNSUPPORTED:
      return kNotSupported;
    default:
      return kUnknown;
  }
}

}  // namespace nvml

GPEMU_SHIM_EXPORT const char* nvmlErrorString(int status) {
  return status >= 0 && status < static_cast<int>(std::size(nvml::kStatusTexts))
             ? nvml::kStatusTexts[status]
             : "Unknown Error";
}

GPEMU_SHIM_EXPORT int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  return nvml::put_text(gpemu_monitor_driver_version(), version, length);
}
GPEMU_SHIM_EXPORT int nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  char text[80];
  std::snprintf(text, sizeof(text), "%d.%s", nvml::kApiVersion, gpemu_monitor_driver_version());
  return nvml::put_text(text, version, length);
}
GPEMU_SHIM_EXPORT int nvmlSystemGetCudaDriverVersion(int* version) {
  if (version == nullptr) return nvml::kInvalidArgument;
  *version = kCudaDriverVersion;
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}
