// SPDX-License-Identifier: Apache-2.0
#include "event.hpp"

#include "gpemu/cuda.h"
#include "gpemu/process/faults.hpp"
#include "gpemu/streams/context.hpp"
#include "gpemu/streams/host_functions.hpp"
#include "gpemu/streams/waits.hpp"

#include "capture.hpp"
#include "ipc.hpp"
#include "stream.hpp"
#include "synchronize.hpp"

namespace cuda = gpemu::cuda;
namespace process = gpemu::process;
namespace streams = gpemu::streams;

namespace {

/// Errors: kLostStatus if the event's device is lost, unless it is another process's.
gpemu_cuda_status check_device_of(const gpemu_cuda_event& event) {
  return event.device == nullptr ? GPEMU_CUDA_SUCCESS : process::check_device(*event.device);
}

}  // namespace

gpemu_cuda_status gpemu_cuda_event_create(uint32_t flags, gpemu_cuda_event_handle* event) try {
  if (event == nullptr || flags > streams::kAllEventFlags) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&device));
  gpemu_cuda_event* const created = streams::create_event(*device, flags);
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *event = created;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_event_destroy(gpemu_cuda_event_handle event) try {
  GPEMU_CUDA_TRY(process::attach());
  gpemu_cuda_event* const found = streams::find_event(event);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  cuda::stop_sharing(*found);
  streams::events().destroy(found);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_event_record(gpemu_cuda_event_handle event,
                                          gpemu_cuda_stream_handle stream, uint32_t flags) try {
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  gpemu_cuda_event* const recorded = streams::find_event(event);
  if (recorded == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  return cuda::record_event(*recorded, *found, flags);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_event_query(gpemu_cuda_event_handle event) try {
  GPEMU_CUDA_TRY(process::attach());
  const gpemu_cuda_event* const found = streams::find_event(event);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  GPEMU_CUDA_TRY(cuda::refuse_captured(*found));
  GPEMU_CUDA_TRY(cuda::check_unsafe_call());
  GPEMU_CUDA_TRY(check_device_of(*found));
  return !found->current().recorded() || (streams::is_over(found->current().moment()) &&
                                          streams::have_returned(found->host_calls))
             ? GPEMU_CUDA_SUCCESS
             : GPEMU_CUDA_ERROR_NOT_READY;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_event_synchronize(gpemu_cuda_event_handle event) try {
  GPEMU_CUDA_TRY(process::attach());
  const gpemu_cuda_event* const found = streams::find_event(event);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  GPEMU_CUDA_TRY(cuda::refuse_captured(*found));
  GPEMU_CUDA_TRY(cuda::check_unsafe_call());
  cuda::synchronize(*found);
  return check_device_of(*found);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_event_elapsed(gpemu_cuda_event_handle start,
                                           gpemu_cuda_event_handle end, int64_t* elapsed_ns) try {
  if (elapsed_ns == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  const gpemu_cuda_event* const first = streams::find_event(start);
  const gpemu_cuda_event* const second = streams::find_event(end);
  if (first == nullptr || second == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  gpemu::Duration elapsed{};
  GPEMU_CUDA_TRY(cuda::time_between(*first, *second, &elapsed));
  *elapsed_ns = elapsed.count();
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH
