// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "gpemu/scheduling/registry.hpp"
#include "gpemu/scheduling/simulator.hpp"

// For tests: runs jobs by a policy and returns when they end.
namespace gpemu::scheduling {

/// A job that runs for `work_s` on so many GPUs.
inline Job job_of(double arrival_s, std::uint32_t gpus, double work_s, double restart_s = 0) {
  return {.id = "job",
          .arrival_s = arrival_s,
          .demand = {.gpus = gpus, .host = {}},
          .iterations = work_s,
          .iteration_s = 1,
          .restart_s = restart_s,
          .stages_s = {},
          .model = {}};
}

inline std::vector<double> ends_of(const SimulationResult& result) {
  std::vector<double> ends;
  for (const JobState& state : result.jobs) ends.push_back(state.end_s);
  return ends;
}

/// Returns the ends of the jobs on one server with so many GPUs.
inline std::vector<double> ends_by(std::string_view policy, std::uint64_t gpus,
                                   const std::vector<Job>& jobs,
                                   Accounting accounting = Accounting::kFree) {
  const Fleet fleet = Fleet::uniform(1, gpus).value();
  const auto made = find_policy(policy).value()->make({});
  SimulationOptions options;
  options.accounting = accounting;
  return ends_of(simulate(fleet, jobs, *made, options).value());
}

}  // namespace gpemu::scheduling
