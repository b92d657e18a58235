// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

namespace gpemu::device {

/// Returns the pid of this process, in a forked child its own. Costs no system call.
[[nodiscard]] pid_t own_pid();

/// Returns the inode of this process's pid namespace, which is the same in all processes that share
/// it; zero if it cannot be read. Source: namespaces(7).
[[nodiscard]] std::uint64_t own_pid_namespace();

/// Returns the command name of this process, e.g. "gpemu".
[[nodiscard]] std::string own_process_name();

/// Returns the state of a process of this pid namespace that has a certain file open, as proc(5)
/// writes it: 'T' if it is stopped. Returns nothing if the process does not have the file open, or
/// may not be inspected: its pid may belong to another process by now.
[[nodiscard]] std::optional<char> state_of_user(pid_t pid, dev_t file_system, ino_t inode);

/// Returns the number of the user with that name. A number in digits returns itself.
[[nodiscard]] std::optional<uid_t> find_user(const std::string& name);

/// Returns the name of a user, or the user's number in digits.
[[nodiscard]] std::string user_name(uid_t user);

}  // namespace gpemu::device
