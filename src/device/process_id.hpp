// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>

namespace gpemu::device {

/// Returns the pid of this process, of a forked child its own; costs no system call.
[[nodiscard]] pid_t own_pid();

/// Returns when a process started, in clock ticks after boot; zero when that cannot be read.
/// Source: proc(5), field 22 of /proc/pid/stat.
[[nodiscard]] std::uint64_t process_start_time(pid_t pid);

/// Returns whether the process that had this pid and start time (zero: not known) has ended. One of
/// which nothing can be learned lives: files may be short, and /proc may hide others' processes.
[[nodiscard]] bool process_ended(pid_t pid, std::uint64_t start_time);

/// Returns the command name of this process, e.g. "gpemu".
[[nodiscard]] std::string own_process_name();

}  // namespace gpemu::device
