// SPDX-License-Identifier: Apache-2.0
#include "stream.hpp"

#include <algorithm>
#include <map>

#include "gpemu/base/per_thread.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/process/faults.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/streams/context.hpp"
#include "gpemu/streams/host_functions.hpp"
#include "gpemu/streams/waits.hpp"

#include "capture.hpp"

namespace gpemu::cuda {
namespace {

/// The per-thread default streams of a thread, by device; they end with it.
struct ThreadStreams {
  ThreadStreams() = default;
  ThreadStreams(const ThreadStreams&) = delete;
  ThreadStreams& operator=(const ThreadStreams&) = delete;
  ~ThreadStreams() {
    if (process::forked()) return;  // They are its parent's.
    for (const auto& [ordinal, stream] : by_device) {
      destroy_stream(*stream);
    }
  }
  std::map<int, gpemu_cuda_stream*> by_device;
};

process::Status per_thread_stream(process::DeviceState& device, gpemu_cuda_stream** stream) {
  auto* const own = PerThread<ThreadStreams>::get();
  if (own == nullptr) {
    *stream = device.default_stream;
    return GPEMU_CUDA_SUCCESS;
  }
  gpemu_cuda_stream*& found = own->by_device[device.ordinal];
  if (found == nullptr) found = streams::create_stream(device, 0, 0);
  if (found == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *stream = found;
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace

process::Status resolve(gpemu_cuda_stream_handle handle, gpemu_cuda_stream** stream) {
  const auto bits = reinterpret_cast<std::uintptr_t>(handle);
  // 1 is the legacy default stream, 2 that of the thread.
  if (bits <= 2) {
    process::DeviceState* device = nullptr;
    GPEMU_CUDA_TRY(streams::current_device(&device));
    if (bits == 2) return per_thread_stream(*device, stream);
    *stream = device->default_stream;
    return GPEMU_CUDA_SUCCESS;
  }
  GPEMU_CUDA_TRY(process::attach());
  gpemu_cuda_stream* const found = streams::streams().find(handle);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  *stream = found;
  return process::check_device(*found->device);
}

process::Status resolve_for_work(gpemu_cuda_stream_handle handle, gpemu_cuda_stream** stream) {
  GPEMU_CUDA_TRY(resolve(handle, stream));
  return check_legacy_stream(**stream, true);
}

void destroy_stream(gpemu_cuda_stream& stream) {
  leave_capture(stream);
  streams::streams().destroy(&stream);
}

device::QueuedWork enqueue(gpemu_cuda_stream& stream, device::Engine engine, Bytes bytes,
                           Duration duration, const char* name) {
  streams::follow(stream);
  // A copy by the multiprocessors waits for memory or a link.
  const device::QueuedWork queued = engine == device::Engine::kCompute
                                        ? stream.stream->launch(duration, 1)
                                        : stream.stream->copy(engine, bytes, duration);
  process::record({.device = stream.device,
                   .stream_id = stream.id,
                   .queued = queued,
                   .operation_class = kernels::OperationClass::kCopy,
                   .name = name,
                   .bytes = bytes});
  return queued;
}

device::QueuedWork enqueue_peer_copy(gpemu_cuda_stream& stream, Bytes bytes, Duration duration) {
  streams::follow(stream);
  // The engine counts what goes from and to the host.
  const device::QueuedWork queued =
      stream.stream->copy(device::Engine::kCopyDeviceToHost, 0, duration);
  process::record({.device = stream.device,
                   .stream_id = stream.id,
                   .queued = queued,
                   .operation_class = kernels::OperationClass::kCopy,
                   .name = "copy to peer",
                   .bytes = bytes});
  return queued;
}

void queue_operation(const cost::OperationCost& cost, const gpemu_operation& operation,
                     gpemu_cuda_stream& stream) {
  streams::follow(stream);
  const device::QueuedWork queued =
      stream.stream->launch(cost.estimate.time, cost.memory_share, cost.width, cost.waves);
  process::record({.device = stream.device,
                   .stream_id = stream.id,
                   .queued = queued,
                   .operation_class = cost.operation_class,
                   .evidence = cost.estimate.evidence,
                   .name = operation.name,
                   .operation = &operation});
  if (stream.device->has_faults) process::count_kernel_for_faults(*stream.device);
  if (process::process().settings->launches_block && !stream.runs_graph) {
    streams::wait_until(stream.stream->last_end(), stream.device);
  }
}

process::Status run_operation(const cost::OperationCost& cost, const gpemu_operation& operation,
                              gpemu_cuda_stream& stream) {
  if (capturing(stream)) return capture_operation(stream, cost, operation);
  queue_operation(cost, operation, stream);
  return GPEMU_CUDA_SUCCESS;
}

process::Status run_host_function(void (*function)(void*), void* data, gpemu_cuda_stream& stream) {
  const bool added = streams::add_host_function(stream.stream->tail(), function, data, stream);
  return added ? GPEMU_CUDA_SUCCESS : GPEMU_CUDA_ERROR_OPERATING_SYSTEM;
}

}  // namespace gpemu::cuda
