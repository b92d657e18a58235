// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cuda.h"
#include "gpemu/process/faults.hpp"
#include "gpemu/process/peer.hpp"
#include "gpemu/process/process.hpp"
#include "gpemu/streams/context.hpp"

#include "capture.hpp"
#include "synchronize.hpp"

namespace cuda = gpemu::cuda;
namespace process = gpemu::process;
namespace streams = gpemu::streams;

gpemu_cuda_status gpemu_cuda_device_count(int32_t* count) try {
  if (count == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  *count = process::device_count();
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_get_device(int32_t device, const gpemu_cuda_device** info) try {
  if (info == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  if (device < 0 || device >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  *info = &process::device_at(device).info;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_get_compute_mode(int32_t device, int32_t* mode) try {
  if (mode == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  if (device < 0 || device >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  const gpemu::device::Node& node = *process::process().node;
  *mode = static_cast<int32_t>(node.settings(process::device_at(device).index).compute_mode());
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_device_synchronize(void) try {
  process::DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&state));
  GPEMU_CUDA_TRY(cuda::refuse_captures_on(*state));
  cuda::synchronize(*state);
  return process::check_device(*state);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_can_access_peer(int32_t device, int32_t peer, int32_t* can) try {
  if (can == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  if (device < 0 || device >= process::device_count() || peer < 0 ||
      peer >= process::device_count()) {
    return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  }
  *can = process::can_access(process::device_at(device), process::device_at(peer)) ? 1 : 0;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_enable_peer_access(int32_t peer) try {
  process::DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&state));
  if (peer < 0 || peer >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  if (peer == state->ordinal) return GPEMU_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  return process::enable_peer_access(*state, process::device_at(peer));
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_disable_peer_access(int32_t peer) try {
  process::DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&state));
  if (peer < 0 || peer >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  return process::disable_peer_access(*state, process::device_at(peer));
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_mem_info(uint64_t* free_bytes, uint64_t* total_bytes) try {
  if (free_bytes == nullptr || total_bytes == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  process::DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&state));
  const gpemu::device::MemoryInfo info = state->device->memory_info();
  *free_bytes = info.free;
  // The limit of a client of MPS shows only in what is free, as on an H200 with driver 580.159
  // (tools/measure/measure_sharing.py, 2026-11-26).
  *total_bytes = state->mps_client ? state->info.total_memory : info.total;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH
