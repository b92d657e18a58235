// SPDX-License-Identifier: Apache-2.0
//
// What of cuda.h is not supported yet: sharing between processes. Each call says so, once.
#include "gpemu/cuda.h"

gpemu_cuda_status gpemu_cuda_ipc_export_memory(uint64_t, gpemu_cuda_ipc*) {
  gpemu_cuda_not_supported("cuda", "ipc_export_memory");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_ipc_open_memory(const gpemu_cuda_ipc*, uint64_t*) {
  gpemu_cuda_not_supported("cuda", "ipc_open_memory");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_ipc_close_memory(uint64_t) {
  gpemu_cuda_not_supported("cuda", "ipc_close_memory");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_ipc_export_event(gpemu_cuda_event_handle, gpemu_cuda_ipc*) {
  gpemu_cuda_not_supported("cuda", "ipc_export_event");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

gpemu_cuda_status gpemu_cuda_ipc_open_event(const gpemu_cuda_ipc*, gpemu_cuda_event_handle*) {
  gpemu_cuda_not_supported("cuda", "ipc_open_event");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}
