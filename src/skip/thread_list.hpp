// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <sys/types.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/sim/clock.hpp"

#include "process_view.hpp"

namespace gpemu::skip {

/// The threads of all descendants of a process. Thread safety: none.
class ThreadList {
 public:
  struct Listed {
    pid_t process = 0;
    bool is_zombie = false;  ///< its first thread has ended.
    bool operator==(const Listed&) const = default;
  };
  using Threads = std::map<pid_t, Listed>;  ///< by thread.

  /// Lists the descendants of `root`, which itself does not count. `host` is the host's clock; it
  /// and the view outlive the list.
  ThreadList(pid_t root, ProcessView& view, const sim::Clock& host);

  /// Makes the list, and returns whether it is complete: no process or thread was started
  /// meanwhile. Otherwise the last complete list remains.
  [[nodiscard]] bool make();

  /// Returns whether the list has threads and is known to be still complete: no process or thread
  /// was started on this host since it was made.
  [[nodiscard]] bool is_current() const;

  [[nodiscard]] const Threads& threads() const { return threads_; }
  /// Returns how many times the threads were listed.
  [[nodiscard]] std::uint64_t tries() const { return tries_; }

 private:
  [[nodiscard]] std::optional<pid_t> last_pid() const;
  [[nodiscard]] std::optional<Threads> read() const;

  pid_t root_;
  ProcessView& view_;
  const sim::Clock& host_;
  FileDescriptor last_pid_file_;
  Threads threads_;
  std::optional<pid_t> last_pid_;  ///< when the list was complete.
  TimePoint made_at_{};
  std::uint64_t tries_ = 0;
};

}  // namespace gpemu::skip
