// SPDX-License-Identifier: Apache-2.0
#include "cuda.hpp"
#include "cuda_version_abi.hpp"
#include "status_text.hpp"

namespace {

int find_text(int status, const char** text, const char* StatusText::* part) {
  if (text == nullptr) {
    return kInvalidValue;
  }
  const StatusText* entry = find_status(status);
  const bool known = entry != nullptr && *entry->driver_name != '\0';
  *text = known ? entry->*part : nullptr;
  return known ? kSuccess : kInvalidValue;
}

}  // namespace

GPEMU_SHIM_EXPORT int cuDriverGetVersion(int* version) {
  return put_result(kSuccess, version, kCudaDriverVersion);
}

GPEMU_SHIM_EXPORT int cuGetErrorName(int status, const char** text) {
  return find_text(status, text, &StatusText::driver_name);
}

GPEMU_SHIM_EXPORT int cuGetErrorString(int status, const char** text) {
  return find_text(status, text, &StatusText::meaning);
}

GPEMU_SHIM_EXPORT int cuLogsRegisterCallback(gpemu_cuda_log_callback callback, void* data,
                                             gpemu_cuda_log_handle* log) {
  return gpemu_cuda_log_register(callback, data, log);
}

GPEMU_SHIM_EXPORT int cuLogsUnregisterCallback(gpemu_cuda_log_handle log) {
  return gpemu_cuda_log_unregister(log);
}
