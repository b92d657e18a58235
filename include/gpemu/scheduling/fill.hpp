// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/placement.hpp"

namespace gpemu::scheduling {

/// How a fleet is filled.
struct FillOptions {
  /// How many times the GPUs of the fleet the jobs ask for, all together. Source: FGD's
  /// experiments.
  double load = 1.3;
  std::uint64_t seed = 42;  ///< of what is drawn; FGD's are 42 to 51.
  /// Called now and then with the number of jobs that arrived and that of all; may be empty.
  std::function<void(std::size_t arrived, std::size_t all)> progress;
  const std::atomic<bool>* stop = nullptr;  ///< ends the filling; null: nothing does.
};

/// What is drawn for a filling: which jobs arrive, in which order, and in which order the servers
/// stand.
struct FillDraw {
  std::vector<JobIndex> jobs;          ///< a job may arrive several times.
  std::vector<std::uint32_t> servers;  ///< places in Fleet::servers().
};

/// Draws what FGD's simulator draws from a seed: the jobs in a random order; as long as they ask
/// for less than the load, copies of random ones behind them; as long as they ask for more, random
/// ones leave. Then a random order of the servers.
///
/// Source: TunePodsByNodeTotalResource and syncClusterResourceList in pkg/simulator/simulator.go of
/// github.com/hkust-adsl/kubernetes-scheduler-simulator.
/// Errors: kInvalidArgument if the jobs ask for no GPUs, or the load is not above 0; kResourceLimit
///   if so many would arrive that their list does not fit.
[[nodiscard]] Result<FillDraw> draw_fill(const Fleet& fleet, std::span<const Job> jobs,
                                         const FillOptions& options);

/// What became of a filling. The curves have a value for each per cent of the fleet's GPUs that the
/// jobs until then had asked for, from 0: the mean over the arrivals for which it is the next whole
/// number; where there are none, over those of the numbers beside it, or NaN.
struct FillResult {
  std::size_t arrived = 0;
  std::size_t left_out = 0;               ///< jobs that did not fit when they arrived.
  std::vector<double> allocated_percent;  ///< GPUs that jobs have, of all.
  std::vector<double>
      fragmented_percent;  ///< free GPUs that the typical demands cannot use, of all.
};

/// Lets jobs arrive one after the other on the empty fleet. None ends. A job that does not fit is
/// left out.
///
/// Errors: those of draw_fill(); kInterrupted if it was stopped.
[[nodiscard]] Result<FillResult> fill(const Fleet& fleet, std::span<const Job> jobs,
                                      const PlacementEntry& placement,
                                      const FillOptions& options = {});

}  // namespace gpemu::scheduling
