// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>

namespace gpemu::device {

/// Returns when a process started, in clock ticks after boot; zero when there is no such process or
/// it has ended and only waits to be collected. Source: proc(5), field 22 of /proc/pid/stat.
[[nodiscard]] std::uint64_t process_start_time(pid_t pid);

/// Returns the command name of this process, e.g. "gpemu".
[[nodiscard]] std::string own_process_name();

}  // namespace gpemu::device
