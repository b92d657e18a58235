// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "process.hpp"

namespace gpemu::cuda {

/// Numbers of host functions, some of which may have returned. Never given twice. Those that
/// streams and events hold are guarded by the queue's lock.
using HostCalls = std::vector<std::uint64_t>;

/// Whether a host function has been queued and has not returned. While there is none, nothing that
/// depends on them costs more than asking this.
[[nodiscard]] inline bool any_host_calls() {
  return process().open_host_calls.load(std::memory_order_acquire) != 0;
}

/// Whether the calling thread is in a host function, where CUDA forbids to wait for the GPU.
[[gnu::tls_model("initial-exec")]] inline thread_local constinit bool in_host_function = false;

}  // namespace gpemu::cuda
