// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "gpemu/process/status.hpp"

namespace gpemu::process {

/// More contexts than any program pushes on a thread's stack.
inline constexpr std::size_t kMaxContexts = 64;

/// CUDA's state of a thread.
struct ThreadState {
  std::size_t depth;    ///< of the stack; its last is current.
  std::int32_t device;  ///< the runtime's current device.
  Status last_error;
  std::array<std::int32_t, kMaxContexts> contexts;  ///< the driver's stack.

  /// Returns the ordinal of the context's device, or -1.
  [[nodiscard]] std::int32_t current_context() const {
    return depth == 0 ? -1 : contexts[depth - 1];
  }
  /// Returns the ordinal of the current device, whose context may not exist yet.
  [[nodiscard]] std::int32_t current_device() const {
    return depth == 0 ? device : contexts[depth - 1];
  }
  /// Errors: OUT_OF_MEMORY.
  [[nodiscard]] Status push(std::int32_t context) {
    if (depth == kMaxContexts) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
    contexts[depth++] = context;
    return GPEMU_CUDA_SUCCESS;
  }
};
// Programs call gpemu in destructors of statics, which run after those of the thread's variables.
static_assert(std::is_trivially_destructible_v<ThreadState>);
// Every call reads this several times. With this TLS model an access is not a function call, but
// all thread-local variables of the library must fit into the loader's reserve: see the test
// shims.Library.LeavesRoomForThreadsOfOthers.
[[gnu::tls_model("initial-exec")]] inline thread_local constinit ThreadState thread_state{};

}  // namespace gpemu::process
