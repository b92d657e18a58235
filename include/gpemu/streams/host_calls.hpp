// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace gpemu::streams {

/// Numbers of host functions, some of which may have returned. Never given twice. Those that
/// streams and events hold are guarded by the queue's lock.
using HostCalls = std::vector<std::uint64_t>;

/// How many host functions have been queued and have not returned. Written under the lock of
/// host_functions.cpp.
inline constinit std::atomic<std::uint64_t> open_host_calls{0};

/// Returns whether a host function was queued and has not returned. If there is none, this check is
/// the only cost of host functions.
[[nodiscard]] inline bool any_host_calls() {
  return open_host_calls.load(std::memory_order_acquire) != 0;
}

/// Whether the calling thread is in a host function, in which CUDA forbids waiting for the GPU.
[[gnu::tls_model("initial-exec")]] inline thread_local constinit bool in_host_function = false;

}  // namespace gpemu::streams
