// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/accounting.hpp"
#include "gpemu/scheduling/ledger.hpp"
#include "gpemu/scheduling/policy.hpp"
#include "gpemu/scheduling/use_over_time.hpp"

namespace gpemu::scheduling {

/// How a simulation is done.
struct SimulationOptions {
  Accounting accounting = Accounting::kChange;
  /// Called now and then with the number of jobs that ended; may be empty.
  std::function<void(std::size_t ended)> progress;
  const std::atomic<bool>* stop = nullptr;  ///< ends the simulation; null: nothing does.
  bool keeps_stints = false;                ///< fills SimulationResult::stints.
};

/// How the jobs fared, and how the GPUs were used.
struct SimulationResult {
  std::vector<JobState> jobs;    ///< by JobIndex; all have ended.
  std::uint64_t decisions = 0;   ///< how often the policy was asked.
  double held_gpu_s = 0;         ///< the time that each GPU was held, summed over the GPUs.
  UseOverTime use;               ///< the same over time.
  double waited_s = 0;           ///< for how long one job or more waited.
  double held_gpu_waited_s = 0;  ///< of held_gpu_s, that during this time.
  std::vector<Stint> stints;     ///< in the order of their ends; empty unless asked for.
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

}  // namespace gpemu::scheduling
