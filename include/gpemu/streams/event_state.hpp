// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/device/device.hpp"
#include "gpemu/process/device_state.hpp"
#include "gpemu/process/handle_table.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/process/process.hpp"
#include "gpemu/streams/host_calls.hpp"

struct gpemu_cuda_event {
  gpemu::device::Event event;
  gpemu::process::DeviceState* device = nullptr;  ///< its own; null for another process's.
  gpemu::streams::HostCalls host_calls;           ///< of this process, for which it stands.
  std::uint32_t flags = 0;
  std::atomic<std::uint64_t> capture_id{
      0};                                  ///< the capture in which it was last recorded; 0: none.
  std::vector<gpemu_cuda_node*> captured;  ///< the nodes for which it then stood.
  /// Its time for processes that share it, 0 while it has none; null: it is not shared.
  std::atomic<std::int64_t>* shared_ns = nullptr;
  gpemu::Bytes mapped_bytes =
      0;  ///< of the file of the process that owns the event, if that is another one.

  /// Returns what the event stands for now, whichever process recorded it.
  [[nodiscard]] gpemu::device::Event current() const {
    if (mapped_bytes == 0) return device->device->read(event);
    const std::int64_t ns = shared_ns->load(std::memory_order_acquire);
    if (ns == 0) return {};
    return gpemu::device::Event(gpemu::at_ns(ns));
  }
  /// Shows other processes that it was recorded.
  void publish() {
    if (shared_ns == nullptr) return;
    shared_ns->store(gpemu::to_ns(current().moment().time()), std::memory_order_release);
  }
};

namespace gpemu::streams {

/// cudaEventBlockingSync, cudaEventDisableTiming and cudaEventInterprocess.
inline constexpr std::uint32_t kAllEventFlags = 7;

/// More than any program keeps alive; an unused slot costs only address space.
inline constexpr std::size_t kMaxEvents = 1 << 20;

[[nodiscard]] inline process::HandleTable<gpemu_cuda_event>& events() {
  static constinit process::MadeOnce<process::HandleTable<gpemu_cuda_event>> table;
  return table.get(kMaxEvents);
}

/// Returns the live event that a handle names, or null.
[[nodiscard]] inline gpemu_cuda_event* find_event(gpemu_cuda_event_handle handle) {
  return events().find(handle);
}

/// Returns a new event of a device, or null if there are too many.
[[nodiscard]] gpemu_cuda_event* create_event(process::DeviceState& device, std::uint32_t flags);

}  // namespace gpemu::streams
