// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "lock_file.hpp"
#include "snapshot.hpp"

namespace gpemu::device {

/// Returns a name for a process that holds something, for a message, and how to end or continue it
/// if it is stopped. `file`: the node's, null if the node has none.
[[nodiscard]] std::string describe_holder(const ProcessSnapshot& process, const LockFile* file);

/// Returns which processes hold most memory, except the process `own`, for a message; "" if none
/// holds any.
[[nodiscard]] std::string describe_largest_holders(std::vector<ProcessSnapshot> processes,
                                                   pid_t own, const LockFile* file);

}  // namespace gpemu::device
