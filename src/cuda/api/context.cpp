// SPDX-License-Identifier: Apache-2.0
#include "gpemu/streams/context.hpp"

#include "gpemu/cuda.h"
#include "gpemu/memory/limits.hpp"

#include "synchronize.hpp"

namespace cuda = gpemu::cuda;
namespace memory = gpemu::memory;
namespace process = gpemu::process;
namespace streams = gpemu::streams;

namespace {

void end(process::DeviceState& device) {
  cuda::synchronize(device);
  streams::end_context(device);
}

}  // namespace

gpemu_cuda_status gpemu_cuda_last_error(int32_t clear) try {
  const gpemu_cuda_status status = process::thread_state.last_error;
  if (clear != 0) process::thread_state.last_error = GPEMU_CUDA_SUCCESS;
  return status;
}
GPEMU_CUDA_CATCH

void gpemu_cuda_set_last_error(gpemu_cuda_status status) try {
  process::thread_state.last_error = status;
}
GPEMU_CUDA_CATCH_VOID

gpemu_cuda_status gpemu_cuda_init(void) try { return process::attach(); }
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_context_current(int32_t* device) try {
  if (device == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  *device = process::thread_state.current_context();
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_context_set_current(int32_t device) try {
  GPEMU_CUDA_TRY(process::attach());
  if (device < -1 || device >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_CONTEXT;
  if (process::thread_state.depth > 0) --process::thread_state.depth;
  if (device < 0) return GPEMU_CUDA_SUCCESS;
  process::thread_state.device = device;
  return process::thread_state.push(device);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_context_push(int32_t device) try {
  GPEMU_CUDA_TRY(process::attach());
  if (device < 0 || device >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_CONTEXT;
  return process::thread_state.push(device);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_context_pop(int32_t* device) try {
  GPEMU_CUDA_TRY(process::attach());
  if (process::thread_state.depth == 0) return GPEMU_CUDA_ERROR_INVALID_CONTEXT;
  if (device != nullptr) *device = process::thread_state.current_context();
  --process::thread_state.depth;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_context_retain(int32_t device) try {
  process::DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(streams::device_with_context(device, &state));
  ++state->context_users;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_context_release(int32_t device) try {
  GPEMU_CUDA_TRY(process::attach());
  if (device < 0 || device >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  process::DeviceState& state = process::device_at(device);
  int users = state.context_users;
  do {
    if (users == 0) return GPEMU_CUDA_ERROR_INVALID_CONTEXT;
  } while (!state.context_users.compare_exchange_weak(users, users - 1));
  if (users == 1 && !state.runtime_uses && state.active) end(state);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_context_active(int32_t device, int32_t* active) try {
  if (active == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  if (device < 0 || device >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  *active = process::device_at(device).active ? 1 : 0;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_context_reset(int32_t device) try {
  GPEMU_CUDA_TRY(process::attach());
  if (device < 0 || device >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  process::DeviceState& state = process::device_at(device);
  if (state.active) end(state);
  // A process gets no other context after a fatal error. Source: an H200, driver 580.159.
  if (state.fatal != GPEMU_CUDA_SUCCESS) state.fatal = GPEMU_CUDA_ERROR_DEVICE_UNAVAILABLE;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_current_device(int32_t* device) try {
  if (device == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  *device = process::thread_state.current_device();
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_set_current_device(int32_t device) try {
  process::DeviceState* state = nullptr;
  const gpemu_cuda_status status = streams::device_with_context(device, &state);
  // A context with a fatal error can still be made current. Source: an H200, driver 580.159.
  const bool is_fatal = state != nullptr && state->active && status == state->fatal;
  if (status != GPEMU_CUDA_SUCCESS && !is_fatal) return status;
  state->runtime_uses = true;
  return gpemu_cuda_context_set_current(device);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_ensure_context(void) try {
  process::DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(streams::enter_context(&state));
  // Every call of the runtime comes here; writing only if necessary keeps the cache line shared.
  if (!state->runtime_uses.load(std::memory_order_relaxed)) state->runtime_uses = true;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_get_limit(int32_t limit, uint64_t* value) try {
  if (value == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&device));
  return memory::get_limit(*device, limit, value);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_set_limit(int32_t limit, uint64_t value) try {
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&device));
  return memory::set_limit(*device, limit, value);
}
GPEMU_CUDA_CATCH
