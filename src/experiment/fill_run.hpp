// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>

#include "gpemu/base/error.hpp"
#include "gpemu/experiment/run_experiment.hpp"
#include "gpemu/profile/experiment_spec.hpp"

namespace gpemu::experiment {

/// Fills the fleet of a run by its placement, once for each seed. Its tables lie in `folder`.
///
/// Errors: those of the tables, the placement's name, and scheduling::fill(); kInterrupted after
/// `stop`.
[[nodiscard]] Result<FilledFleet> run_fill(const profile::ExperimentRun& run,
                                           const std::filesystem::path& folder,
                                           const std::atomic<bool>& stop);

}  // namespace gpemu::experiment
