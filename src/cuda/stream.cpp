// SPDX-License-Identifier: Apache-2.0
#include "stream.hpp"

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "capture.hpp"
#include "handle_table.hpp"
#include "mover.hpp"
#include "recorder.hpp"

namespace gpemu::cuda {
namespace {

/// More than any program keeps alive; an untouched slot costs address space only.
constexpr std::size_t kMaxStreams = 1 << 16;
constexpr std::size_t kMaxEvents = 1 << 20;

constexpr std::uint32_t kDisableTiming = 2;
constexpr std::uint32_t kAllEventFlags = 7;

/// Source: cudaDeviceGetStreamPriorityRange on GPUs since Kepler: 0 to -5.
constexpr std::int32_t kLeastPriority = 0;
constexpr std::int32_t kGreatestPriority = -5;

HandleTable<gpemu_cuda_stream>& streams() {
  static auto* const table = new HandleTable<gpemu_cuda_stream>(kMaxStreams);
  return *table;
}

HandleTable<gpemu_cuda_event>& events() {
  static auto* const table = new HandleTable<gpemu_cuda_event>(kMaxEvents);
  return *table;
}

std::atomic<std::uint64_t> next_stream_id{1};

/// The per-thread default streams of a thread, by device; they end with it.
struct ThreadStreams {
  ThreadStreams() = default;
  ThreadStreams(const ThreadStreams&) = delete;
  ThreadStreams& operator=(const ThreadStreams&) = delete;
  ~ThreadStreams() {
    for (const auto& [ordinal, stream] : by_device) {
      leave_capture(*stream);
      streams().destroy(stream);
    }
    ended = true;
  }
  /// Destructors of statics may still use streams.
  static thread_local constinit bool ended;
  std::map<int, gpemu_cuda_stream*> by_device;
};

thread_local constinit bool ThreadStreams::ended = false;

gpemu_cuda_stream* create_stream(DeviceState& device, std::uint32_t flags, std::int32_t priority) {
  gpemu_cuda_stream* const created = streams().create();
  if (created == nullptr) return nullptr;
  created->device = &device;
  created->owned = device.device->create_stream((flags & kNonBlockingStream) != 0
                                                    ? device::StreamKind::kNonBlocking
                                                    : device::StreamKind::kBlocking);
  created->stream = created->owned.get();
  created->flags = flags;
  created->priority = std::min(std::max(priority, kGreatestPriority), kLeastPriority);
  created->id = next_stream_id++;
  return created;
}

Status per_thread_stream(DeviceState& device, gpemu_cuda_stream** stream) {
  if (ThreadStreams::ended) {
    *stream = device.default_stream;
    return GPEMU_CUDA_SUCCESS;
  }
  thread_local ThreadStreams own;
  gpemu_cuda_stream*& found = own.by_device[device.ordinal];
  if (found == nullptr) found = create_stream(device, 0, 0);
  if (found == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *stream = found;
  return GPEMU_CUDA_SUCCESS;
}

device::Interval queue(gpemu_cuda_stream& stream, device::Engine engine, Bytes bytes,
                       Duration duration) {
  follow(stream);
  if (stream.node != nullptr) {
    const device::Interval interval =
        stream.stream->enqueue_from(stream.node->earliest, engine, bytes, duration);
    stream.node->end = std::max(stream.node->end, interval.end);
    return interval;
  }
  return engine == device::Engine::kCompute ? stream.stream->launch(duration)
                                            : stream.stream->copy(engine, bytes, duration);
}

/// Source: CUDA C++ Programming Guide, "CUDA Environment Variables": 1 makes launches block.
bool launches_block() {
  static const bool block = [] {
    const char* const value = std::getenv("CUDA_LAUNCH_BLOCKING");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return block;
}

/// Whether all that was to be done until a time is.
bool is_over(TimePoint time) {
  return time <= clock().now() && mover().is_done_until(time);
}

/// Source: CUDA C++ Programming Guide, "Multi-Device System": events are recorded in streams of
/// their device and timed against events of it; waited for are those of any.
bool are_apart(const DeviceState* a, const DeviceState* b) {
  return a != nullptr && b != nullptr && a != b;
}

}  // namespace

void wait_for_moves(TimePoint time) {
  if (!mover().busy() || in_host_function()) return;
  const TimePoint before = clock().now();
  mover().wait_until(time);
  record_late_wait(clock().now() - before);
}

void wait_until(TimePoint time) {
  const TimePoint before = clock().now();
  clock().wait_until(time);
  wait_for_moves(time);
  record_wait(clock().now() - before);
}

void make_default_stream(DeviceState& device) {
  device.default_stream = streams().create();
  GPEMU_CHECK(device.default_stream != nullptr, "no slot for a default stream");
  device.default_stream->device = &device;
  device.default_stream->stream = &device.device->default_stream();
  device.default_stream->id = next_stream_id++;
}

Status resolve(gpemu_cuda_stream_handle handle, gpemu_cuda_stream** stream) {
  const auto bits = reinterpret_cast<std::uintptr_t>(handle);
  // 1 is the legacy default stream, 2 that of the thread.
  if (bits <= 2) {
    DeviceState* device = nullptr;
    GPEMU_CUDA_TRY(current_device(&device));
    if (bits == 2) return per_thread_stream(*device, stream);
    *stream = device->default_stream;
    return GPEMU_CUDA_SUCCESS;
  }
  GPEMU_CUDA_TRY(attach());
  gpemu_cuda_stream* const found = streams().find(handle);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  *stream = found;
  return GPEMU_CUDA_SUCCESS;
}

DeviceState& device_of(gpemu_cuda_stream& stream) {
  return *stream.device;
}

Status resolve_for_work(gpemu_cuda_stream_handle handle, gpemu_cuda_stream** stream) {
  GPEMU_CUDA_TRY(resolve(handle, stream));
  return check_legacy_stream(**stream, true);
}

gpemu_cuda_event* find_event(gpemu_cuda_event_handle handle) {
  return events().find(handle);
}

device::Interval enqueue(gpemu_cuda_stream& stream, device::Engine engine, Bytes bytes,
                         Duration duration, const char* name) {
  const device::Interval interval = queue(stream, engine, bytes, duration);
  record({.device = stream.device,
          .stream_id = stream.id,
          .interval = interval,
          .operation_class = cost::OperationClass::kCopy,
          .name = name,
          .bytes = bytes});
  return interval;
}

Status run_operation(const cost::OperationCost& cost, const gpemu_operation& operation,
                     gpemu_cuda_stream& stream) {
  if (capturing(stream)) return capture_operation(stream, cost, operation);
  const device::Interval interval = queue(stream, device::Engine::kCompute, 0, cost.estimate.time);
  record({.device = stream.device,
          .stream_id = stream.id,
          .interval = interval,
          .operation_class = cost.operation_class,
          .evidence = cost.estimate.evidence,
          .name = operation.name,
          .operation = &operation});
  if (launches_block() && stream.node == nullptr) wait_until(interval.end);
  return GPEMU_CUDA_SUCCESS;
}

void run_host_function(void (*function)(void*), void* data, gpemu_cuda_stream& stream) {
  const TimePoint time = stream.node != nullptr ? stream.node->earliest : stream.stream->tail();
  add_host_function(time, function, data, stream);
}

Status wait_in_graph(gpemu_cuda_event_handle event, gpemu_cuda_stream& stream) {
  const gpemu_cuda_event* const found = events().find(event);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (found->current().recorded())
    stream.node->end = std::max(stream.node->end, found->current().time());
  follow(stream, &found->host_calls);
  return GPEMU_CUDA_SUCCESS;
}

Status record_in_graph(gpemu_cuda_event_handle event, gpemu_cuda_stream& stream) {
  gpemu_cuda_event* const found = events().find(event);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  forget_capture(*found);
  found->event = device::Event(stream.node->earliest);
  copy_host_calls(stream, found->host_calls);
  found->publish();
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::cuda

// ---- The C interface

using gpemu::cuda::are_apart;
using gpemu::cuda::attach;
using gpemu::cuda::capture_record;
using gpemu::cuda::capture_wait;
using gpemu::cuda::capturing;
using gpemu::cuda::check_unsafe_call;
using gpemu::cuda::copy_host_calls;
using gpemu::cuda::current_device;
using gpemu::cuda::DeviceState;
using gpemu::cuda::events;
using gpemu::cuda::follow;
using gpemu::cuda::have_returned;
using gpemu::cuda::is_over;
using gpemu::cuda::kAllEventFlags;
using gpemu::cuda::kDisableTiming;
using gpemu::cuda::kGreatestPriority;
using gpemu::cuda::kLeastPriority;
using gpemu::cuda::kNonBlockingStream;
using gpemu::cuda::refuse_captured;
using gpemu::cuda::resolve;
using gpemu::cuda::resolve_for_work;
using gpemu::cuda::streams;
using gpemu::cuda::trim_pools;
using gpemu::cuda::wait_for_host_functions;
using gpemu::cuda::wait_until;

gpemu_cuda_status gpemu_cuda_stream_create(uint32_t flags, int32_t priority,
                                           gpemu_cuda_stream_handle* stream) {
  if (stream == nullptr || flags > kNonBlockingStream) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  gpemu_cuda_stream* const created = gpemu::cuda::create_stream(*device, flags, priority);
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *stream = created;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_stream_destroy(gpemu_cuda_stream_handle stream) {
  GPEMU_CUDA_TRY(attach());
  gpemu_cuda_stream* const found = streams().find(stream);
  if (found == nullptr || found->owned == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  gpemu::cuda::leave_capture(*found);
  streams().destroy(found);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_stream_get_info(gpemu_cuda_stream_handle stream,
                                             gpemu_cuda_stream_info* info) {
  if (info == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve(stream, &found));
  *info = {.device = found->device->ordinal,
           .flags = found->flags,
           .priority = found->priority,
           .id = found->id};
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_stream_synchronize(gpemu_cuda_stream_handle stream) {
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &found));
  GPEMU_CUDA_TRY(refuse_captured(*found));
  GPEMU_CUDA_TRY(check_unsafe_call());
  wait_until(found->stream->tail());
  wait_for_host_functions(*found);
  trim_pools();
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_stream_query(gpemu_cuda_stream_handle stream) {
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &found));
  GPEMU_CUDA_TRY(refuse_captured(*found));
  GPEMU_CUDA_TRY(check_unsafe_call());
  return is_over(found->stream->tail()) && have_returned(*found) ? GPEMU_CUDA_SUCCESS
                                                                 : GPEMU_CUDA_ERROR_NOT_READY;
}

gpemu_cuda_status gpemu_cuda_stream_wait_event(gpemu_cuda_stream_handle stream,
                                               gpemu_cuda_event_handle event, uint32_t flags) {
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &found));
  gpemu_cuda_event* const waited = events().find(event);
  if (waited == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (capturing(*found) || waited->capture_id != 0) return capture_wait(*found, *waited, flags);
  found->stream->wait(waited->current());
  follow(*found, &waited->host_calls);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_launch_host_function(gpemu_cuda_stream_handle stream,
                                                  void (*function)(void*), void* data) {
  if (function == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &found));
  if (capturing(*found)) {
    gpemu_cuda_node_parameters node{.kind = GPEMU_CUDA_NODE_HOST};
    node.host_function = function;
    node.host_data = data;
    return gpemu::cuda::capture(*found, node);
  }
  gpemu::cuda::run_host_function(function, data, *found);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_stream_priority_range(int32_t* least, int32_t* greatest) {
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_event_create(uint32_t flags, gpemu_cuda_event_handle* event) {
  if (event == nullptr || flags > kAllEventFlags) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  gpemu_cuda_event* const created = events().create();
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  created->flags = flags;
  created->device = device;
  *event = created;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_event_destroy(gpemu_cuda_event_handle event) {
  GPEMU_CUDA_TRY(attach());
  gpemu_cuda_event* const found = events().find(event);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  gpemu::cuda::stop_sharing(*found);
  events().destroy(found);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_event_record(gpemu_cuda_event_handle event,
                                          gpemu_cuda_stream_handle stream, uint32_t flags) {
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &found));
  gpemu_cuda_event* const recorded = events().find(event);
  if (recorded == nullptr || are_apart(recorded->device, found->device)) {
    return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  }
  if (capturing(*found)) return capture_record(*recorded, *found, flags);
  gpemu::cuda::forget_capture(*recorded);
  found->stream->record(recorded->event);
  follow(*found);
  copy_host_calls(*found, recorded->host_calls);
  recorded->publish();
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_event_query(gpemu_cuda_event_handle event) {
  GPEMU_CUDA_TRY(attach());
  const gpemu_cuda_event* const found = events().find(event);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  GPEMU_CUDA_TRY(refuse_captured(*found));
  GPEMU_CUDA_TRY(check_unsafe_call());
  return !found->current().recorded() ||
                 (is_over(found->current().time()) && have_returned(found->host_calls))
             ? GPEMU_CUDA_SUCCESS
             : GPEMU_CUDA_ERROR_NOT_READY;
}

gpemu_cuda_status gpemu_cuda_event_synchronize(gpemu_cuda_event_handle event) {
  GPEMU_CUDA_TRY(attach());
  const gpemu_cuda_event* const found = events().find(event);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  GPEMU_CUDA_TRY(refuse_captured(*found));
  GPEMU_CUDA_TRY(check_unsafe_call());
  if (found->current().recorded()) wait_until(found->current().time());
  wait_for_host_functions(found->host_calls);
  trim_pools();
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_event_elapsed(gpemu_cuda_event_handle start,
                                           gpemu_cuda_event_handle end, int64_t* elapsed_ns) {
  if (elapsed_ns == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(attach());
  const gpemu_cuda_event* const first = events().find(start);
  const gpemu_cuda_event* const second = events().find(end);
  if (first == nullptr || second == nullptr || are_apart(first->device, second->device)) {
    return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  }
  GPEMU_CUDA_TRY(refuse_captured(*first));
  GPEMU_CUDA_TRY(refuse_captured(*second));
  if (!first->current().recorded() || !second->current().recorded() ||
      ((first->flags | second->flags) & kDisableTiming) != 0) {
    return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  }
  if (!is_over(std::max(first->current().time(), second->current().time()))) {
    return GPEMU_CUDA_ERROR_NOT_READY;
  }
  *elapsed_ns = (second->current().time() - first->current().time()).count();
  return GPEMU_CUDA_SUCCESS;
}
