// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <sys/types.h>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::run {

/// Returns the children of this process, including adopted ones and zombies.
///
/// Errors: those of list_folder, if the kernel does not list all processes.
[[nodiscard]] Result<std::vector<pid_t>> children();

/// Ends all descendants of this process except its children in `spared`. Children that belong to
/// another user cannot be ended and are spared too. `list`: as children(). If it fails, which may
/// be for lack of memory, it is called again, up to 100 times with pauses of 1 ms.
void end_descendants(std::vector<pid_t> spared,
                     const std::function<Result<std::vector<pid_t>>()>& list = children);

}  // namespace gpemu::run
