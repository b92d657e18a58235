// SPDX-License-Identifier: Apache-2.0
#include "ipc.hpp"

#include "gpemu/cuda.h"
#include "gpemu/process/attach.hpp"
#include "gpemu/streams/event_state.hpp"

namespace cuda = gpemu::cuda;
namespace process = gpemu::process;
namespace streams = gpemu::streams;

gpemu_cuda_status gpemu_cuda_ipc_export_memory(uint64_t address, gpemu_cuda_ipc* ipc) try {
  if (ipc == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  return cuda::export_memory(address, ipc);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_ipc_open_memory(const gpemu_cuda_ipc* ipc, uint64_t* address) try {
  if (ipc == nullptr || address == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  return cuda::open_memory(*ipc, address);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_ipc_close_memory(uint64_t address) try {
  GPEMU_CUDA_TRY(process::attach());
  return cuda::close_memory(address);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_ipc_export_event(gpemu_cuda_event_handle event,
                                              gpemu_cuda_ipc* ipc) try {
  if (ipc == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  gpemu_cuda_event* const found = streams::find_event(event);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  return cuda::export_event(*found, ipc);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_ipc_open_event(const gpemu_cuda_ipc* ipc,
                                            gpemu_cuda_event_handle* event) try {
  if (ipc == nullptr || event == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  return cuda::open_event(*ipc, event);
}
GPEMU_CUDA_CATCH
