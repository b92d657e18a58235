// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/device/device.hpp"
#include "gpemu/process/device_state.hpp"
#include "gpemu/process/handle_table.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/process/process.hpp"
#include "gpemu/streams/host_calls.hpp"

namespace gpemu::streams {

/// cudaStreamNonBlocking.
inline constexpr std::uint32_t kNonBlockingStream = 1;

}  // namespace gpemu::streams

struct gpemu_cuda_stream {
  gpemu::process::DeviceState* device = nullptr;
  std::unique_ptr<gpemu::device::Stream> owned;  ///< null for the legacy default stream.
  gpemu::device::Stream* stream = nullptr;
  std::uint32_t flags = 0;
  std::int32_t priority = 0;
  std::uint64_t id = 0;
  bool runs_graph = false;                   ///< exists for a step of a graph's launch.
  gpemu::streams::HostCalls host_calls;      ///< on which its next work depends.
  std::atomic<std::uint64_t> capture_id{0};  ///< 0: it does not capture.
  std::vector<gpemu_cuda_node*> frontier;    ///< on which the next captured work depends.
};

namespace gpemu::streams {

/// More than any program keeps alive; an unused slot costs only address space.
inline constexpr std::size_t kMaxStreams = 1 << 16;

[[nodiscard]] inline process::HandleTable<gpemu_cuda_stream>& streams() {
  static constinit process::MadeOnce<process::HandleTable<gpemu_cuda_stream>> table;
  return table.get(kMaxStreams);
}

/// Returns a new stream of a device, or null if there are too many.
[[nodiscard]] gpemu_cuda_stream* create_stream(process::DeviceState& device, std::uint32_t flags,
                                               std::int32_t priority);

/// Makes the legacy default stream of a device whose context is made.
void make_default_stream(process::DeviceState& device);

}  // namespace gpemu::streams
