// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <sched.h>
#include <string_view>

#include "gpemu/base/units.hpp"

namespace gpemu::report {

/// How much of the host's cores a run and other processes used. Values for several spans of time
/// can be added.
struct HostLoad {
  Duration elapsed{};
  Duration own_cpu{};  ///< CPU time of the run's threads, or of the programs that it started.
  Duration
      others_cpu{};  ///< CPU time that everything else used of the cores that this process may use.
  /// Time in which threads of this process were ready to run but had no core; nothing for programs
  /// that it started, or if the kernel does not count it.
  std::optional<Duration> queued;
  std::int64_t preemptions = 0;  ///< how often a thread of the run was taken off its core.

  HostLoad& operator+=(const HostLoad& other);

  /// Returns by how much others slowed the run's threads down: of the time in which threads wanted
  /// a core, the share that they waited for other processes. Waits of the run's threads for each
  /// other do not count.
  ///
  /// If `queued` is not known, the threads are assumed to have waited for others only while all
  /// `cores` were busy.
  [[nodiscard]] double slowdown(int cores) const;

  /// Returns whether that is too much to trust measured stalls.
  [[nodiscard]] bool too_busy(int cores) const;
};

/// Whose time counts as the run's own.
enum class LoadScope : std::uint8_t { kThisProcess, kChildren };

/// What the kernel has counted until some moment.
struct HostSample {
  Duration time{};  ///< on the host's clock.
  Duration own_cpu{};
  Duration busy{};  ///< of all cores that this process may use.
  std::int64_t preemptions = 0;
  std::map<int, Duration> queued;  ///< by thread of this process; empty if not known.
};

/// Returns the kernel's present counts.
[[nodiscard]] HostSample sample_host(LoadScope scope);

/// Measures the load since its construction.
class HostLoadMeter {
 public:
  using Sampler = std::function<HostSample(LoadScope)>;

  HostLoadMeter(LoadScope scope, Sampler sampler);

  /// Returns the load until now. Requires, for kThisProcess: the relevant threads are still
  /// running; for kChildren: the programs have ended and were waited for.
  [[nodiscard]] HostLoad read() const;

 private:
  LoadScope scope_;
  Sampler sampler_;
  HostSample start_;
};

/// Returns how long the cores in `allowed` were busy, as /proc/stat counts it.
[[nodiscard]] Duration busy_time(std::string_view proc_stat, const cpu_set_t& allowed,
                                 std::int64_t ticks_per_s);

}  // namespace gpemu::report
