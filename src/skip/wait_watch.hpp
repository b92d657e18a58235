// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/sim/clock.hpp"
#include "gpemu/skip/proc_text.hpp"

#include "connections.hpp"
#include "process_view.hpp"
#include "thread_list.hpp"

namespace gpemu::skip {

/// Finds out whether all descendants of a process wait only for each other and for known times.
/// docs/design/shared-clock.md has the rules and says why the answer is right.
///
/// A thread that cannot be examined counts as computing. Thread safety: none.
class WaitWatch {
 public:
  /// Watches the descendants of `root`, which itself does not count. `shared_file`: a file in
  /// whose memory threads may wait, "" for none. `host` is the host's clock; it and the view
  /// outlive the watch.
  WaitWatch(pid_t root, std::string shared_file, ProcessView& view, const sim::Clock& host);
  WaitWatch(const WaitWatch&) = delete;
  WaitWatch& operator=(const WaitWatch&) = delete;
  ~WaitWatch() = default;

  /// Returns whether, at some moment during this call, every thread slept in a wait that counts.
  /// `has_time` returns whether the end of a thread's wait is known: then the wait counts, even
  /// though the kernel may end it by itself.
  [[nodiscard]] bool all_wait(const std::function<bool(pid_t)>& has_time);

  /// Returns the processes seen by the last check.
  [[nodiscard]] const std::set<pid_t>& processes() const { return processes_; }
  /// Returns whether a thread existed when all_wait() last returned true.
  [[nodiscard]] bool is_alive(pid_t thread) const {
    const auto found = threads_.find(thread);
    return found != threads_.end() && !found->second.ended;
  }
  /// Returns the process of a thread, or 0 if it is not known.
  [[nodiscard]] pid_t process_of(pid_t thread) const;

  /// Returns whether all_wait() last returned false because a thread was running.
  [[nodiscard]] bool one_runs() const { return way_ == kRuns; }
  /// Returns a text for people that says why all_wait() last returned false: "python (4711) waits
  /// for something outside the run".
  [[nodiscard]] std::string who_computes() const;

  /// The effort of all_wait(): how often it ran, and how many threads it examined.
  struct Counts {
    std::uint64_t checks = 0, looks = 0, looks_anew = 0, lists = 0;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  static constexpr std::string_view kRuns = "runs",
                                    kOutside = "waits for something outside the run";
  struct Thread {
    pid_t process = 0;
    FileDescriptor state, runs, call;  ///< /proc/PID/task/TID/stat, schedstat and syscall.
    std::uint64_t run_count = 0;
    bool known = false;  ///< it has slept in a wait that counts since it had run so often.
    bool ended = false;
    bool timed = false;  ///< the wait may end by itself.
    Connections::Carriers carriers;
    SystemCall last_call;  ///< the last one that was examined.
  };
  enum class Look { kSleeps, kSleepsAnew, kComputes };

  /// Lists all threads, and returns whether none was started meanwhile. `all_sleep`: whether all
  /// threads of the last list sleep.
  [[nodiscard]] bool make_list(bool all_sleep);
  [[nodiscard]] Look look(pid_t id, Thread& thread, const std::function<bool(pid_t)>& has_time);
  [[nodiscard]] static Look ended(Thread& thread);
  [[nodiscard]] bool counts_as_waiting(Thread& thread);
  [[nodiscard]] bool is_own_memory(pid_t process, std::uint64_t address);
  [[nodiscard]] Look computes(pid_t id, std::string_view way);

  std::string shared_file_;
  ProcessView& view_;
  Connections connections_;
  ThreadList list_;
  bool is_sure_ = false;  ///< the list was made while all its threads slept.
  std::map<pid_t, Thread> threads_;
  std::set<pid_t> processes_;
  bool one_time_ = true;  ///< all of them share this process's PID and time namespaces.
  std::map<std::pair<pid_t, std::uint64_t>, bool> own_memory_;  ///< by process and page.
  pid_t computing_ = 0;  ///< the thread that was computing at the last check; it is examined first.
  std::string_view way_;
  Counts counts_;
};

}  // namespace gpemu::skip
