// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "nvml.hpp"

namespace nvml {
namespace {

constexpr int kCudaVersion = 13020;  // what cuDriverGetVersion of the shim yields

struct StatusText {
  int status;
  const char* text;
};

// The texts of nvmlErrorString. Source: nvmlReturn_t, and nvidia-ml-py, which shows the same to
// users.
constexpr StatusText kStatusTexts[] = {{0, "Success"},
                                       {1, "Uninitialized"},
                                       {2, "Invalid Argument"},
                                       {3, "Not Supported"},
                                       {4, "Insufficient Permissions"},
                                       {5, "Already Initialized"},
                                       {6, "Not Found"},
                                       {7, "Insufficient Size"},
                                       {8, "Insufficient External Power"},
                                       {9, "Driver Not Loaded"},
                                       {10, "Timeout"},
                                       {11, "Interrupt Request Issue"},
                                       {12, "NVML Shared Library Not Found"},
                                       {13, "Function Not Found"},
                                       {14, "Corrupted infoROM"},
                                       {15, "GPU is lost"},
                                       {16, "GPU requires restart"},
                                       {17, "The operating system has blocked the request."},
                                       {18, "Driver/library version mismatch"},
                                       {19, "In use by another client"},
                                       {20, "Insufficient Memory"},
                                       {21, "No data"},
                                       {22, "vGPU ECC not supported"},
                                       {23, "Insufficient Resources"},
                                       {24, "Frequency not supported"},
                                       {25, "Argument version mismatch"},
                                       {26, "Deprecated"},
                                       {27, "Not Ready"},
                                       {28, "GPU not found"},
                                       {29, "Invalid State"},
                                       {30, "Reset type not supported"}};

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
  for (const nvml::StatusText& entry : nvml::kStatusTexts) {
    if (entry.status == status) return entry.text;
  }
  return "Unknown Error";
}

GPEMU_SHIM_EXPORT int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  return nvml::put_text(gpemu_monitor_driver_version(), version, length);
}
GPEMU_SHIM_EXPORT int nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  char text[80];  // NVML_API_VERSION before the driver's
  std::snprintf(text, sizeof(text), "13.%s", gpemu_monitor_driver_version());
  return nvml::put_text(text, version, length);
}
GPEMU_SHIM_EXPORT int nvmlSystemGetCudaDriverVersion(int* version) {
  if (version == nullptr) return nvml::kInvalidArgument;
  *version = nvml::kCudaVersion;
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}
