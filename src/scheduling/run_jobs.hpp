// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

/// Returns a fleet of servers with one GPU each.
inline Fleet machines(std::size_t fast, std::size_t slow) {
  std::vector<Server> servers(fast, {.name = "f", .gpu = "fast", .gpus = 1});
  servers.resize(fast + slow, {.name = "s", .gpu = "slow", .gpus = 1});
  return Fleet::create(servers).value();
}

/// A job that takes such times on the two kinds.
inline Job job_on(double fast_s, double slow_s, std::uint32_t user = 0, double arrival_s = 0) {
  Job job = job_of(arrival_s, 1, fast_s);
  job.user = user;
  job.speed = std::make_shared<SpeedProfile>(SpeedProfile{
      .by_kind = {1, fast_s / slow_s}, .by_host = {}, .by_kind_and_host = {}, .evidence = ""});
  return job;
}

inline std::vector<double> ends_on(const Fleet& fleet, std::string_view policy,
                                   const std::vector<Job>& jobs) {
  const auto made = find_policy(policy).value()->make({});
  return ends_of(simulate(fleet, jobs, *made).value());
}

}  // namespace gpemu::scheduling
