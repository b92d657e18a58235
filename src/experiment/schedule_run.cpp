// SPDX-License-Identifier: Apache-2.0
#include "schedule_run.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpemu/experiment/run_experiment.hpp"
#include "gpemu/scheduling/fleet_table.hpp"
#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/registry.hpp"

namespace gpemu::experiment {
namespace {

using scheduling::ScheduleMetrics;

constexpr std::array<ScheduleQuantity, 11> kScheduleQuantities = {{
    {"average_jct_s", "the jobs' average time from arrival to end",
     [](const ScheduleMetrics& m) { return m.average_jct_s; }},
    {"average_wait_s", "of it, the time without GPUs",
     [](const ScheduleMetrics& m) { return m.average_wait_s; }},
    {"average_run_s", "of it, the time with GPUs",
     [](const ScheduleMetrics& m) { return m.average_jct_s - m.average_wait_s; }},
    {"p40_jct_s", "the 40th percentile of that time",
     [](const ScheduleMetrics& m) { return m.p40_jct_s; }},
    {"median_jct_s", "its median", [](const ScheduleMetrics& m) { return m.median_jct_s; }},
    {"p90_jct_s", "its 90th percentile", [](const ScheduleMetrics& m) { return m.p90_jct_s; }},
    {"p95_jct_s", "its 95th percentile", [](const ScheduleMetrics& m) { return m.p95_jct_s; }},
    {"p99_jct_s", "its 99th percentile", [](const ScheduleMetrics& m) { return m.p99_jct_s; }},
    {"makespan_s", "from the first arrival to the last end",
     [](const ScheduleMetrics& m) { return m.makespan_s; }},
    {"held_percent", "the share of the GPUs' time that jobs held",
     [](const ScheduleMetrics& m) { return 100 * m.utilization; }},
    {"preemptions", "how often jobs lost their GPUs before they ended",
     [](const ScheduleMetrics& m) { return m.preemptions; }},
}};

scheduling::Accounting accounting_of(const std::string& word) {
  if (word == "muri") return scheduling::Accounting::kMuri;
  return word == "free" ? scheduling::Accounting::kFree : scheduling::Accounting::kChange;
}

Result<std::vector<scheduling::Job>> read_run_jobs(const profile::ExperimentRun& run,
                                                   const std::filesystem::path& folder,
                                                   const scheduling::Fleet& fleet) {
  scheduling::JobTableOptions options{.fleet = &fleet, .restart_s = run.restart_s};
  if (run.accounting == "muri") options.iteration_factor = scheduling::kMuriIterationFactor;
  scheduling::SpeedTable speeds;
  if (!run.speeds.empty()) {
    GPEMU_ASSIGN(speeds, scheduling::read_speeds(folder / run.speeds, fleet));
    options.speeds = &speeds;
  }
  scheduling::RestartTimes restarts;
  if (!run.restarts.empty()) {
    GPEMU_ASSIGN(restarts, scheduling::read_restart_times(folder / run.restarts));
    options.restarts = &restarts;
  }
  GPEMU_ASSIGN(std::vector<scheduling::Job> jobs,
               scheduling::read_jobs(folder / run.jobs, options));
  const auto first = static_cast<std::size_t>(run.first_jobs);
  if (first != 0 && first < jobs.size()) jobs.resize(first);
  return jobs;
}

}  // namespace

std::span<const ScheduleQuantity> schedule_quantities() {
  return kScheduleQuantities;
}

Result<ScheduleMetrics> run_schedule(const profile::ExperimentRun& run,
                                     const std::filesystem::path& folder,
                                     const std::atomic<bool>& stop) {
  GPEMU_ASSIGN(const scheduling::PolicyEntry* policy, scheduling::find_policy(run.policy));
  Result<scheduling::Fleet> fleet =
      run.fleet.empty() ? scheduling::Fleet::uniform(static_cast<std::uint64_t>(run.servers),
                                                     static_cast<std::uint64_t>(run.gpus))
                        : scheduling::read_fleet(folder / run.fleet);
  if (!fleet) return std::unexpected(std::move(fleet).error());
  GPEMU_ASSIGN(const std::vector<scheduling::Job> jobs, read_run_jobs(run, folder, *fleet));
  GPEMU_TRY(scheduling::check_policy(*policy, *fleet, jobs));
  scheduling::PolicySettings settings;
  if (run.round_s > 0) settings.round_s = run.round_s;
  const std::unique_ptr<scheduling::Policy> made = policy->make(settings);
  GPEMU_ASSIGN(const scheduling::SimulationResult result,
               scheduling::simulate(*fleet, jobs, *made,
                                    {.accounting = accounting_of(run.accounting), .stop = &stop}));
  return scheduling::metrics_of(*fleet, jobs, result);
}

}  // namespace gpemu::experiment
