// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <set>

#include "gpemu/base/units.hpp"
#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/cuda.h"
#include "gpemu/device/device.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::cuda {

using Status = gpemu_cuda_status;

/// One device that this process sees. Never moves once the machine is attached.
struct DeviceState {
  int ordinal = 0;  ///< as CUDA numbers it, after CUDA_VISIBLE_DEVICES.
  int index = 0;    ///< in the node.
  profile::GpuSpec spec;
  gpemu_cuda_device info{};
  std::unique_ptr<cost::OperationCostModel> costs;
  /// The primary context; null until somebody needed it.
  std::unique_ptr<device::Device> device;
  std::atomic<bool> active{false};    ///< whether the context is made, and not reset since.
  device::DeviceAddress context = 0;  ///< its own memory; guarded by the machine's mutex.
  std::atomic<int> context_users{0};
  /// Whether the runtime API uses the context, and so keeps it when its users are gone.
  std::atomic<bool> runtime_uses{false};
  /// Devices whose memory the context may use; guarded by the machine's mutex.
  std::set<int> peers;
  gpemu_cuda_stream* default_stream = nullptr;
};

/// Attaches this process to its node on first use. Errors: NO_DEVICE, NOT_INITIALIZED after fork.
[[nodiscard]] Status attach();

/// Whether this process was forked from one that had attached: no lock may be taken, for threads
/// that are no more may have held it.
[[nodiscard]] bool forked();

/// The clock of the node. Requires: attached.
[[nodiscard]] sim::Clock& clock();

[[nodiscard]] int device_count();

/// Requires: 0 <= ordinal < device_count().
[[nodiscard]] DeviceState& device_at(int ordinal);

/// Blocks until all work and all host functions of this process on the device are done.
void wait_for(DeviceState& device);

/// Gives back what idles in memory pools beyond their thresholds. Called where the host has waited.
/// Source: CUDA Programming Guide, "Stream-Ordered Memory Allocator", on synchronisation.
void trim_pools();

/// Gives back everything that this process holds on a device; who uses it next makes the context
/// anew.
void end_context(DeviceState& device);

/// Yields a device, with its primary context made. Errors: those of attach, INVALID_DEVICE,
/// OUT_OF_MEMORY.
[[nodiscard]] Status device_with_context(int ordinal, DeviceState** device);

/// Returns the ordinal of the calling thread's current device, whose context need not be made.
[[nodiscard]] int current_ordinal();

/// Yields the calling thread's current device, with its context made.
[[nodiscard]] Status current_device(DeviceState** device);

/// As current_device; the context is made the thread's current one where there is none.
[[nodiscard]] Status enter_context(DeviceState** device);

/// Yields a live stream for a handle; understands NULL, 1 and 2. Errors: INVALID_HANDLE, and those
/// of current_device.
[[nodiscard]] Status resolve(gpemu_cuda_stream_handle handle, gpemu_cuda_stream** stream);

[[nodiscard]] DeviceState& device_of(gpemu_cuda_stream& stream);

/// Queues work of known duration; `name` goes to trace and report and must stay.
device::Interval enqueue(gpemu_cuda_stream& stream, device::Engine engine, Bytes bytes,
                         Duration duration, const char* name);

/// Returns whether the stream is capturing; then work goes to capture() and not to enqueue().
[[nodiscard]] bool capturing(gpemu_cuda_stream& stream);
[[nodiscard]] Status capture(gpemu_cuda_stream& stream, const gpemu_cuda_node_parameters& node);

/// Errors: STREAM_CAPTURE_UNSUPPORTED when the thread may not make unsafe calls (cudaMalloc,
/// synchronisation) because of a capture in global or thread-local mode; the capture is then
/// invalidated.
[[nodiscard]] Status check_unsafe_call();

}  // namespace gpemu::cuda

/// Returns the status of an expression from the enclosing function unless it is SUCCESS.
#define GPEMU_CUDA_TRY(expression)                                                 \
  do {                                                                             \
    const gpemu_cuda_status gpemu_cuda_try_status = (expression);                  \
    if (gpemu_cuda_try_status != GPEMU_CUDA_SUCCESS) return gpemu_cuda_try_status; \
  } while (false)
