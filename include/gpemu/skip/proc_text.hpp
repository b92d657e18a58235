// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <sys/types.h>
#include <system_error>
#include <vector>

/// Facts from texts of /proc, as pure functions. A text may be cut off and contain any bytes: the
/// functions then find nothing, or what a shorter text would have said.
namespace gpemu::skip {

/// Returns the number at the start of a text, after blanks and the base's prefix.
template <typename Number>
[[nodiscard]] std::optional<Number> leading_number(std::string_view text, int base = 10) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// ---- Threads and processes

/// Returns the letter of a thread's state, or '?' if there is none. Source: proc_pid_stat(5).
[[nodiscard]] char state_in(std::string_view stat);

/// Returns the parent of a process. Source: proc_pid_stat(5).
[[nodiscard]] std::optional<pid_t> parent_in(std::string_view stat);

/// Returns how often a thread that has run was given a processor; nothing if the kernel does not
/// count, which shows as 0. Source: Documentation/scheduler and fs/proc/base.c of Linux.
[[nodiscard]] std::optional<std::uint64_t> run_count_in(std::string_view schedstat);

/// A system call in which a thread sleeps.
struct SystemCall {
  long number = -1;
  std::array<std::uint64_t, 6> arguments{};
  bool operator==(const SystemCall&) const = default;
};

/// Returns a thread's system call. There is none if the thread runs, or waits for a page, or if
/// its program is a 32-bit one: their calls have other numbers. Source: fs/proc/base.c of Linux.
[[nodiscard]] std::optional<SystemCall> system_call_in(std::string_view syscall);

/// Returns the children of a thread. Source: proc_tid_children(5).
[[nodiscard]] std::vector<pid_t> children_in(std::string_view children);

/// Returns the process or thread that was started last. Source: proc_loadavg(5).
[[nodiscard]] std::optional<pid_t> last_pid_in(std::string_view loadavg);

/// Returns whether only processes that share the memory at an address by inheritance, or by
/// `shared_file` ("" for none), can reach it. `is_there`: says whether a path names a file. Source:
/// proc_pid_maps(5); for segments of System V, newseg() in ipc/shm.c of Linux.
[[nodiscard]] bool is_own_memory(std::string_view maps, std::uint64_t address,
                                 std::string_view shared_file,
                                 const std::function<bool(std::string_view path)>& is_there);

// ---- Open files. Source, if no other is named: proc_pid_fdinfo(5)

/// Returns the inode in the link of a descriptor, for example "socket:[4711]"; nothing for files
/// with a path and for "anon_inode:[...]".
[[nodiscard]] std::optional<std::uint64_t> inode_in(std::string_view link);

/// Returns O_RDONLY, O_WRONLY or O_RDWR.
[[nodiscard]] std::optional<int> access_mode_in(std::string_view fdinfo);

/// A file in a poll set.
struct PollTarget {
  int descriptor = 0;        ///< when it was put in; it may belong to another file now.
  std::uint32_t events = 0;  ///< EPOLLIN and others.
  std::uint64_t inode = 0;
  bool operator==(const PollTarget&) const = default;
};

/// Returns the files in a poll set; nothing if one of them cannot be read.
[[nodiscard]] std::optional<std::vector<PollTarget>> poll_targets_in(std::string_view fdinfo);

/// Returns whether a timerfd is known not to run.
[[nodiscard]] bool timer_is_stopped(std::string_view fdinfo);

/// Returns the process of a pidfd; -1 if it has ended.
[[nodiscard]] std::optional<pid_t> process_in(std::string_view fdinfo);

/// Returns the number that an eventfd has on this host.
[[nodiscard]] std::optional<std::int64_t> eventfd_id_in(std::string_view fdinfo);

/// Returns whether all requests that an io_uring has got are known to be done, and the kernel takes
/// no more out of its queue by itself. A request that is done several times
/// (IORING_TIMEOUT_MULTISHOT) is not seen. Source: io_uring/fdinfo.c of Linux.
[[nodiscard]] bool ring_is_idle(std::string_view fdinfo);

// ---- The host

/// Returns how many TCP connections this host has started to open. Source: RFC 4022.
[[nodiscard]] std::optional<std::uint64_t> opened_connections_in(std::string_view snmp);

}  // namespace gpemu::skip
