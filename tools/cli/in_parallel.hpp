// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace gpemu::tools {

/// Calls `work` with each number below `count`, in order, on up to `threads` threads at once, and
/// returns when all calls have. Meanwhile the calling thread calls `progress` with how many have
/// returned, several times a second. `work` must be safe to call from several
/// threads. If the system starts no thread, the calling thread does the work.
void in_parallel(std::size_t count, std::size_t threads,
                 const std::function<void(std::size_t)>& work,
                 const std::function<void(std::size_t)>& progress);

}  // namespace gpemu::tools
