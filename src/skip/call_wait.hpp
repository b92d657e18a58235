// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "gpemu/skip/proc_text.hpp"

#include "direction.hpp"

namespace gpemu::skip {

/// What a thread waits for in a system call: the table in docs/design/shared-clock.md. Without
/// files and without a futex, it waits only for its time, its children or a signal.
struct CallWait {
  bool timed = false;                           ///< it may end by itself.
  std::vector<FileWait> files{};                ///< the descriptors that may end it.
  std::optional<std::uint64_t> shared_futex{};  ///< an address that other processes might reach.
  bool operator==(const CallWait&) const = default;
};

/// Copies memory of the waiting thread; returns whether it could.
using ReadMemory = std::function<bool(std::uint64_t address, std::span<std::byte> to)>;

/// Returns what a thread waits for; nothing if its system call does not count as waiting, whatever
/// it waits for, or if the list of its descriptors cannot be read. A pure function.
[[nodiscard]] std::optional<CallWait> wait_of(const SystemCall& call, const ReadMemory& read);

/// Gives a system call that continues after the process was stopped the number that it had before:
/// its arguments are the same. If `last`, the last call that was examined, is another one, it keeps
/// its number, and does not count. Source: restart_syscall(2).
[[nodiscard]] SystemCall resumed(SystemCall call, const SystemCall& last);

}  // namespace gpemu::skip
