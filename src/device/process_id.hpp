// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

namespace gpemu::device {

/// Returns the pid of this process, of a forked child its own; costs no system call.
[[nodiscard]] pid_t own_pid();

/// Returns the inode of this process's pid namespace, the same in all processes that share it; zero
/// when it cannot be read. Source: namespaces(7).
[[nodiscard]] std::uint64_t own_pid_namespace();

/// Returns the command name of this process, e.g. "gpemu".
[[nodiscard]] std::string own_process_name();

/// Returns the state of a process of this pid namespace that has a file open, as proc(5) writes it:
/// 'T' for one that is stopped. Nothing when the process has not, or may not be looked at: then its
/// pid may be another's.
[[nodiscard]] std::optional<char> state_of_user(pid_t pid, dev_t file_system, ino_t inode);

/// Returns the number of the user with a name, or of the number itself in digits.
[[nodiscard]] std::optional<uid_t> find_user(const std::string& name);

/// Returns the name of a user, or the number in digits.
[[nodiscard]] std::string user_name(uid_t user);

}  // namespace gpemu::device
