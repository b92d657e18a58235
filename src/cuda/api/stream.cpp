// SPDX-License-Identifier: Apache-2.0
#include "stream.hpp"

#include <algorithm>

#include "gpemu/cuda.h"
#include "gpemu/process/faults.hpp"
#include "gpemu/streams/context.hpp"
#include "gpemu/streams/host_functions.hpp"
#include "gpemu/streams/waits.hpp"

#include "capture.hpp"
#include "event.hpp"
#include "synchronize.hpp"

namespace cuda = gpemu::cuda;
namespace process = gpemu::process;
namespace streams = gpemu::streams;

namespace {

/// Source: cudaDeviceGetStreamPriorityRange on GPUs since Kepler: 0 to -5.
constexpr int32_t kLeastPriority = 0;
constexpr int32_t kGreatestPriority = -5;

}  // namespace

gpemu_cuda_status gpemu_cuda_stream_create(uint32_t flags, int32_t priority,
                                           gpemu_cuda_stream_handle* stream) try {
  if (stream == nullptr || flags > streams::kNonBlockingStream)
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&device));
  gpemu_cuda_stream* const created = streams::create_stream(
      *device, flags, std::min(std::max(priority, kGreatestPriority), kLeastPriority));
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *stream = created;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_stream_destroy(gpemu_cuda_stream_handle stream) try {
  GPEMU_CUDA_TRY(process::attach());
  gpemu_cuda_stream* const found = streams::streams().find(stream);
  if (found == nullptr || found->owned == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  cuda::destroy_stream(*found);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_stream_get_info(gpemu_cuda_stream_handle stream,
                                             gpemu_cuda_stream_info* info) try {
  if (info == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve(stream, &found));
  *info = {.device = found->device->ordinal,
           .flags = found->flags,
           .priority = found->priority,
           .id = found->id};
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_stream_synchronize(gpemu_cuda_stream_handle stream) try {
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  GPEMU_CUDA_TRY(cuda::refuse_captured(*found));
  GPEMU_CUDA_TRY(cuda::check_wait(*found->device));
  cuda::synchronize(*found);
  return process::check_device(*found->device);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_stream_query(gpemu_cuda_stream_handle stream) try {
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  GPEMU_CUDA_TRY(cuda::refuse_captured(*found));
  GPEMU_CUDA_TRY(cuda::check_wait(*found->device));
  return streams::is_over(found->stream->tail()) && streams::have_returned(*found)
             ? GPEMU_CUDA_SUCCESS
             : GPEMU_CUDA_ERROR_NOT_READY;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_stream_wait_event(gpemu_cuda_stream_handle stream,
                                               gpemu_cuda_event_handle event, uint32_t flags) try {
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  gpemu_cuda_event* const waited = streams::find_event(event);
  if (waited == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  return cuda::wait_for_event(*found, *waited, flags);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_launch_host_function(gpemu_cuda_stream_handle stream,
                                                  void (*function)(void*), void* data) try {
  if (function == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  if (cuda::capturing(*found)) {
    gpemu_cuda_node_parameters node{.kind = GPEMU_CUDA_NODE_HOST};
    node.host_function = function;
    node.host_data = data;
    return cuda::capture(*found, node);
  }
  return cuda::run_host_function(function, data, *found);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_stream_priority_range(int32_t* least, int32_t* greatest) try {
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH
