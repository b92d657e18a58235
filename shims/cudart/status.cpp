// SPDX-License-Identifier: Apache-2.0
#include "cuda_version_abi.hpp"
#include "cudart.hpp"
#include "status_text.hpp"

GPEMU_SHIM_EXPORT int cudaRuntimeGetVersion(int* version) {
  return record(put_result(version, kCudartVersion));
}

GPEMU_SHIM_EXPORT int cudaDriverGetVersion(int* version) {
  return record(put_result(version, kCudaDriverVersion));
}

GPEMU_SHIM_EXPORT int cudaGetLastError() {
  return gpemu_cuda_last_error(1);
}

GPEMU_SHIM_EXPORT int cudaPeekAtLastError() {
  return gpemu_cuda_last_error(0);
}

GPEMU_SHIM_EXPORT const char* cudaGetErrorName(int error) {
  const StatusText* entry = find_status(error);
  return entry != nullptr && *entry->runtime_name != '\0' ? entry->runtime_name
                                                          : "unrecognized error code";
}

GPEMU_SHIM_EXPORT const char* cudaGetErrorString(int error) {
  const StatusText* entry = find_status(error);
  return entry != nullptr && *entry->runtime_name != '\0' ? entry->meaning
                                                          : "unrecognized error code";
}

#if GPEMU_CUDA_MAJOR == 13
GPEMU_SHIM_EXPORT int cudaLogsRegisterCallback(gpemu_cuda_log_callback callback, void* data,
                                               gpemu_cuda_log_handle* log) {
  return record(gpemu_cuda_log_register(callback, data, log));
}

GPEMU_SHIM_EXPORT int cudaLogsUnregisterCallback(gpemu_cuda_log_handle log) {
  return record(gpemu_cuda_log_unregister(log));
}
#endif
