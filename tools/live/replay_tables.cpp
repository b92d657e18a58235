// SPDX-License-Identifier: Apache-2.0
#include "live/replay_tables.hpp"

#include <utility>

#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/simulator.hpp"

namespace gpemu::tools {
using scheduling::Fleet;
using scheduling::Job;

void add_replay_options(Command command, ReplayTableOptions& options, const std::string& speed) {
  command.option("--jobs", options.jobs, "The table of jobs (docs/reference/job-tables.md)")
      .required();
  command.option("--policy", options.policy, "The scheduler's policy, which is simulated, too")
      .required();
  command.option("--speeds", options.speeds, "A table of speeds");
  command.option("--restart", options.restart_s, "The restart time of every job, in seconds")
      .non_negative();
  command.option("--restarts", options.restarts, "A table of restart times").excludes("--restart");
  command.option("--round", options.round_s, "The length of rounds, in seconds").positive();
  command.option("--first", options.first, "Only so many of the jobs, the first ones");
  command.option("--speed", options.speed, speed).positive().show_default();
  command.option("--per-job", options.per_job, "Write a CSV file of what became of each job");
}

Result<ReplayTables> read_replay_tables(const Fleet& fleet, const ReplayTableOptions& options) {
  GPEMU_ASSIGN(std::vector<Job> jobs, scheduling::read_jobs({.jobs = options.jobs,
                                                             .speeds = options.speeds,
                                                             .restarts = options.restarts,
                                                             .restart_s = options.restart_s},
                                                            fleet));
  if (options.first != 0 && options.first < jobs.size()) jobs.resize(options.first);
  GPEMU_ASSIGN(const scheduling::PolicyEntry* const policy,
               scheduling::find_policy(options.policy));
  GPEMU_TRY(scheduling::check_policy(*policy, fleet, jobs));
  const auto made = policy->make({.round_s = options.round_s});
  GPEMU_ASSIGN(scheduling::SimulationResult simulated, scheduling::simulate(fleet, jobs, *made));
  return ReplayTables{
      .jobs = std::move(jobs), .policy = policy, .simulated = std::move(simulated.jobs)};
}

}  // namespace gpemu::tools
