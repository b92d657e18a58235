// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <cstring>

#include "nvml.hpp"

namespace nvml {
namespace {

int attach() {
  switch (gpemu_monitor_attach()) {
    case GPEMU_OK:
      return kSuccess;
    case GPEMU_ERROR_INCOMPATIBLE:
      return kVersionMismatch;
    case GPEMU_ERROR_RESOURCE_LIMIT:
      return kMemory;
    default:
      return kDriverNotLoaded;
  }
}

}  // namespace

int put_text(const char* text, char* destination, unsigned length) {
  if (destination == nullptr) return kInvalidArgument;
  const size_t needed = std::strlen(text) + 1;
  if (length < needed) return kInsufficientSize;
  std::memcpy(destination, text, needed);
  return kSuccess;
}

int absent(const Handle* device) {
  const int status = index_of(device).status;
  return status == kSuccess ? kNotSupported : status;
}

uint64_t epoch_us(int64_t monotonic_ns) {
  using std::chrono::duration_cast;
  using std::chrono::microseconds;
  using std::chrono::nanoseconds;
  const auto ago = std::chrono::steady_clock::now().time_since_epoch() - nanoseconds(monotonic_ns);
  const auto time = std::chrono::system_clock::now().time_since_epoch() - ago;
  return static_cast<uint64_t>(duration_cast<microseconds>(time).count());
}

}  // namespace nvml

using nvml::Handle;

GPEMU_SHIM_EXPORT int nvmlInit() {
  return nvml::attach();
}
GPEMU_SHIM_EXPORT int nvmlInit_v2() {
  return nvml::attach();
}
GPEMU_SHIM_EXPORT int nvmlInitWithFlags(unsigned) {
  return nvml::attach();
}
GPEMU_SHIM_EXPORT int nvmlShutdown() {
  return nvml::status_of(gpemu_monitor_detach());
}

/// The name is the first word of the command line; it is truncated like NVML's.
GPEMU_SHIM_EXPORT int nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  if (name == nullptr || length == 0) return nvml::kInvalidArgument;
  char path[32];
  std::snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
  std::FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return nvml::kNotFound;
  const size_t read = std::fread(name, 1, length - 1, file);
  std::fclose(file);
  name[read] = '\0';
  return read > 0 ? nvml::kSuccess : nvml::kNotFound;
}

GPEMU_SHIM_EXPORT int nvmlUnitGetCount(unsigned* count) {
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  if (count == nullptr) return nvml::kInvalidArgument;
  *count = 0;
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlGetExcludedDeviceCount(unsigned* count) {
  if (count == nullptr) return nvml::kInvalidArgument;
  *count = 0;
  return nvml::kSuccess;
}
