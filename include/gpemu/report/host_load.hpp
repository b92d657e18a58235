// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <sched.h>
#include <string_view>

#include "gpemu/base/units.hpp"

namespace gpemu::report {

/// How much of the host's cores a run had, and others beside it. Sums of several spans of time are
/// meaningful.
struct HostLoad {
  Duration elapsed{};
  Duration own_cpu{};     ///< CPU time of the run's threads, or of the programs that it started.
  Duration others_cpu{};  ///< CPU time that all else took of the cores that this process may use.
  /// Time in which threads of this process were ready to run and had no core; nothing for programs
  /// that it started, or where the kernel does not count it.
  std::optional<Duration> queued;
  std::int64_t preemptions = 0;  ///< how often a thread of the run was taken off its core.

  HostLoad& operator+=(const HostLoad& other);

  /// Returns by how much others slowed the run's threads: the share of the time in which threads
  /// wanted a core and waited for others to leave it. What threads of the run wait for each other
  /// is no part of it.
  ///
  /// Where `queued` is not known, the threads are taken to have waited for others only as far as
  /// all of the `cores` were busy.
  [[nodiscard]] double slowdown(int cores) const;

  /// Whether that is more than stalls can be believed under.
  [[nodiscard]] bool too_busy(int cores) const;
};

/// Measures the load from its construction on.
class HostLoadMeter {
 public:
  /// Whose time counts as the run's own.
  enum class Scope : std::uint8_t { kThisProcess, kChildren };

  explicit HostLoadMeter(Scope scope);

  /// Returns the load until now. Requires for kThisProcess: threads that matter have not ended; for
  /// kChildren: the programs have, and were waited for.
  [[nodiscard]] HostLoad read() const;

 private:
  struct Sample {
    Duration time{};
    Duration own_cpu{};
    Duration busy{};  ///< of all cores that this process may use.
    std::int64_t preemptions = 0;
    std::map<int, Duration> queued;  ///< by thread.
  };
  [[nodiscard]] Sample sample() const;

  Scope scope_;
  Sample start_;
};

/// Returns the time that the cores of `allowed` were busy, as /proc/stat counts it.
[[nodiscard]] Duration busy_time(std::string_view proc_stat, const cpu_set_t& allowed,
                                 std::int64_t ticks_per_s);

}  // namespace gpemu::report
