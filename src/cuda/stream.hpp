// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "host_functions.hpp"
#include "kernel_effect.hpp"
#include "machine.hpp"

namespace gpemu::cuda {

/// cudaStreamNonBlocking.
inline constexpr std::uint32_t kNonBlockingStream = 1;

/// When a node of a graph that is being launched may start, and when its work ends.
struct NodeTimes {
  TimePoint earliest;
  TimePoint end;
};

}  // namespace gpemu::cuda

struct gpemu_cuda_stream {
  gpemu::cuda::DeviceState* device = nullptr;
  std::unique_ptr<gpemu::device::Stream> owned;  ///< null for the legacy default stream.
  gpemu::device::Stream* stream = nullptr;
  std::uint32_t flags = 0;
  std::int32_t priority = 0;
  std::uint64_t id = 0;
  gpemu::cuda::NodeTimes* node = nullptr;    ///< while one runs, on a stream made up for it.
  gpemu::cuda::HostCalls host_calls;         ///< what its next work depends on.
  std::atomic<std::uint64_t> capture_id{0};  ///< 0: it does not capture.
  std::vector<gpemu_cuda_node*> frontier;    ///< what captured work depends on next.
};

struct gpemu_cuda_event {
  gpemu::device::Event event;
  gpemu::cuda::DeviceState* device = nullptr;  ///< its own; null for another process's.
  gpemu::cuda::HostCalls host_calls;           ///< of this process, that it stands for.
  std::uint32_t flags = 0;
  std::atomic<std::uint64_t> capture_id{0};  ///< where it was recorded last; 0: in none.
  std::vector<gpemu_cuda_node*> captured;    ///< what it then stood for.
  /// Where processes that share it find its time, 0 while it has none; null: it is not shared.
  std::atomic<std::int64_t>* shared_ns = nullptr;
  gpemu::Bytes mapped_bytes = 0;  ///< of another process's file, if it is that process's event.

  /// Returns what the event stands for now, whichever process recorded it.
  [[nodiscard]] gpemu::device::Event current() const {
    if (shared_ns == nullptr) return event;
    const std::int64_t ns = shared_ns->load(std::memory_order_acquire);
    if (ns == 0) return {};
    return gpemu::device::Event(gpemu::TimePoint(gpemu::Duration(ns)));
  }
  /// Tells other processes that it was recorded.
  void publish() {
    if (shared_ns == nullptr) return;
    shared_ns->store(event.time().time_since_epoch().count(), std::memory_order_release);
  }
};

namespace gpemu::cuda {

/// Makes the legacy default stream of a device whose context is made.
void make_default_stream(DeviceState& device);

/// Blocks until the bytes are there of all copies that end until a time on the timeline.
void wait_for_moves(TimePoint time);

/// Blocks until a time and all that ends until then, and counts it among the host's waits.
void wait_until(TimePoint time);

/// As resolve, for whoever gives the stream work or waits for it. Errors: those of resolve,
/// STREAM_CAPTURE_IMPLICIT.
[[nodiscard]] Status resolve_for_work(gpemu_cuda_stream_handle handle, gpemu_cuda_stream** stream);

/// Returns the live event that a handle names, or null.
[[nodiscard]] gpemu_cuda_event* find_event(gpemu_cuda_event_handle handle);

/// Gives up an event's place among those that processes share, if it has one.
void stop_sharing(gpemu_cuda_event& event);

/// A launch and what it costs, unless `status` says what is wrong with it.
struct PricedLaunch {
  Status status = GPEMU_CUDA_SUCCESS;
  cost::OperationCost cost;
  gpemu_operation operation = {};  ///< its name is the kernel's.
};

/// Checks a kernel's launch, describes it and prices it. Errors: those of gpemu_cuda_launch_kernel.
[[nodiscard]] PricedLaunch price_launch(gpemu_cuda_kernel_handle kernel,
                                        const gpemu_cuda_launch& launch, const DeviceState& device);

/// Points `arguments` at each of a launch's packed arguments, and makes `plain` the launch with
/// them. Errors: INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED as gpemu_cuda_launch_kernel has them.
[[nodiscard]] Status unpack_launch(gpemu_cuda_kernel_handle kernel, const gpemu_cuda_launch& launch,
                                   std::vector<void*>* arguments, gpemu_cuda_launch* plain);

/// Finds out what a kernel's launch does to memory.
void describe_launch(gpemu_cuda_kernel_handle kernel, const gpemu_cuda_launch& launch,
                     KernelWork* work);

/// Queues an operation, or captures it.
[[nodiscard]] Status run_operation(const cost::OperationCost& cost,
                                   const gpemu_operation& operation, gpemu_cuda_stream& stream);

/// Queues a call of a function of the program.
void run_host_function(void (*function)(void*), void* data, gpemu_cuda_stream& stream);

/// What nodes of graphs do to events. Errors: INVALID_HANDLE.
[[nodiscard]] Status wait_in_graph(gpemu_cuda_event_handle event, gpemu_cuda_stream& stream);
[[nodiscard]] Status record_in_graph(gpemu_cuda_event_handle event, gpemu_cuda_stream& stream);

}  // namespace gpemu::cuda
