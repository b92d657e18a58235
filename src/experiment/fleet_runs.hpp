// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/experiment/run_result.hpp"
#include "gpemu/profile/experiment_spec.hpp"

namespace gpemu::experiment {

/// Returns the quantities of the two kinds of runs below.
[[nodiscard]] std::vector<Quantity> fleet_quantities();

/// Schedules the jobs of a run by its policy.
///
/// Errors: those of the tables and the policy; kInterrupted after `stop`.
[[nodiscard]] Result<RunResult> schedule_jobs(const profile::ExperimentRun& run,
                                              const std::atomic<bool>& stop);

/// Fills the fleet of a run by its placement, once for each seed.
///
/// Errors: those of the tables and the placement; kInterrupted after `stop`.
[[nodiscard]] Result<RunResult> fill_fleet(const profile::ExperimentRun& run,
                                           const std::atomic<bool>& stop);

}  // namespace gpemu::experiment
