// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/experiment_spec.hpp"
#include "gpemu/scheduling/simulator.hpp"

namespace gpemu::experiment {

/// Schedules the jobs of a run by its policy. Its tables lie in `folder`.
///
/// Errors: those of the tables and the policy's name; kInterrupted after `stop`.
[[nodiscard]] Result<scheduling::ScheduleMetrics> run_schedule(const profile::ExperimentRun& run,
                                                               const std::filesystem::path& folder,
                                                               const std::atomic<bool>& stop);

}  // namespace gpemu::experiment
