// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/policy.hpp"
#include "gpemu/scheduling/use_over_time.hpp"

namespace gpemu::scheduling {

/// When running jobs pay their restart time.
enum class Accounting : std::uint8_t {
  kFree,    ///< never.
  kChange,  ///< whenever they get GPUs that they did not have.
  /// As Muri's simulator does: at each change of the fleet, every running job loses up to its
  /// restart time of what it did since the last one. Jobs that would end within 1e-9 of each other,
  /// relative to the time, end together.
  kMuri,
};

/// How a simulation is done.
struct SimulationOptions {
  Accounting accounting = Accounting::kChange;
  /// Called now and then with the number of jobs that ended; may be empty.
  std::function<void(std::size_t ended)> progress;
  const std::atomic<bool>* stop = nullptr;  ///< ends the simulation; null: nothing does.
};

/// How the jobs fared, and how the GPUs were used.
struct SimulationResult {
  std::vector<JobState> jobs;   ///< by JobIndex; all have ended.
  std::uint64_t decisions = 0;  ///< how often the policy was asked.
  double held_gpu_s = 0;        ///< the time that each GPU was held, summed over the GPUs.
  UseOverTime use;              ///< the same over time.
};

/// Runs the jobs on the fleet in virtual time, as the policy decides.
///
/// Requires: the jobs are sorted by arrival; their numbers are finite, and positive where Job says
/// so. Errors: kInvalidArgument for a job that needs more than the fleet has; kResourceLimit if
/// jobs
///   wait although none runs; kInterrupted if it was stopped; kInternal if the policy is wrong.
/// Complexity: proportional to the changes and to what the policy's decisions contain; with kMuri,
///   to the running jobs at each change.
[[nodiscard]] Result<SimulationResult> simulate(const Fleet& fleet, std::span<const Job> jobs,
                                                Policy& policy,
                                                const SimulationOptions& options = {});

/// The figures by which simulations are compared. Units: seconds.
struct ScheduleMetrics {
  double average_jct_s = 0;
  double p40_jct_s = 0;
  double median_jct_s = 0;
  double p90_jct_s = 0;
  double p95_jct_s = 0;
  double p99_jct_s = 0;
  double makespan_s = 0;      ///< from the first arrival to the last end.
  double average_wait_s = 0;  ///< the time without GPUs, from arrival to end.
  double utilization = 0;     ///< the share of the GPUs' time, over the makespan, that jobs held.
  double preemptions = 0;     ///< how often jobs lost their GPUs before they ended.
};

/// Returns the figures. The percentile p of n sorted values is the one with the index floor(p n).
///
/// Requires: at least one job; `result` is that of these jobs and this fleet.
[[nodiscard]] ScheduleMetrics metrics_of(const Fleet& fleet, std::span<const Job> jobs,
                                         const SimulationResult& result);

}  // namespace gpemu::scheduling
