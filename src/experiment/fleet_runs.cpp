// SPDX-License-Identifier: Apache-2.0
#include "fleet_runs.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/scheduling/fill.hpp"
#include "gpemu/scheduling/fleet_table.hpp"
#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/placement.hpp"
#include "gpemu/scheduling/registry.hpp"
#include "gpemu/scheduling/simulator.hpp"

namespace gpemu::experiment {
namespace {

using scheduling::ScheduleMetrics;

struct ScheduleQuantity {
  std::string_view name;
  std::string_view meaning;
  double (*of)(const ScheduleMetrics& metrics);
};
constexpr auto kScheduleQuantities = std::to_array<ScheduleQuantity>({
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
});

/// How full a placement made a fleet at the full load: means over the seeds.
struct FilledFleet {
  double allocated_percent = 0;
  double fragmented_percent = 0;
  double left_out_percent = 0;
};

struct FillQuantity {
  std::string_view name;
  std::string_view meaning;
  double FilledFleet::* of;
};
constexpr auto kFillQuantities = std::to_array<FillQuantity>({
    {"allocated_percent", "GPUs that jobs have at the full load", &FilledFleet::allocated_percent},
    {"fragmented_percent", "free GPUs that typical jobs cannot use then",
     &FilledFleet::fragmented_percent},
    {"left_out_percent", "jobs that did not fit", &FilledFleet::left_out_percent},
});

scheduling::Accounting accounting_of(const std::string& word) {
  if (word == "muri") return scheduling::Accounting::kMuri;
  return word == "free" ? scheduling::Accounting::kFree : scheduling::Accounting::kChange;
}

Result<scheduling::Fleet> fleet_of_run(const profile::ExperimentRun& run) {
  if (!run.fleet.empty()) return scheduling::read_fleet(run.fleet);
  return scheduling::Fleet::uniform(static_cast<std::uint64_t>(run.servers),
                                    static_cast<std::uint64_t>(run.gpus));
}

Result<std::vector<scheduling::Job>> read_run_jobs(const profile::ExperimentRun& run,
                                                   const scheduling::Fleet& fleet) {
  scheduling::JobTableOptions options{.fleet = &fleet, .restart_s = run.restart_s};
  if (run.accounting == "muri") options.iteration_factor = scheduling::kMuriIterationFactor;
  scheduling::SpeedTable speeds;
  if (!run.speeds.empty()) {
    GPEMU_ASSIGN(speeds, scheduling::read_speeds(run.speeds, fleet));
    options.speeds = &speeds;
  }
  scheduling::RestartTimes restarts;
  if (!run.restarts.empty()) {
    GPEMU_ASSIGN(restarts, scheduling::read_restart_times(run.restarts));
    options.restarts = &restarts;
  }
  GPEMU_ASSIGN(std::vector<scheduling::Job> jobs, scheduling::read_jobs(run.jobs, options));
  const auto first = static_cast<std::size_t>(run.first_jobs);
  if (first != 0 && first < jobs.size()) jobs.resize(first);
  return jobs;
}

}  // namespace

std::vector<Quantity> fleet_quantities() {
  std::vector<Quantity> all;
  for (const ScheduleQuantity& quantity : kScheduleQuantities) {
    all.push_back({.name = quantity.name, .meaning = quantity.meaning});
  }
  for (const FillQuantity& quantity : kFillQuantities) {
    all.push_back({.name = quantity.name, .meaning = quantity.meaning});
  }
  return all;
}

Result<RunResult> schedule_jobs(const profile::ExperimentRun& run, const std::atomic<bool>& stop) {
  GPEMU_ASSIGN(const scheduling::PolicyEntry* policy, scheduling::find_policy(run.policy));
  GPEMU_ASSIGN(const scheduling::Fleet fleet, fleet_of_run(run));
  GPEMU_ASSIGN(const std::vector<scheduling::Job> jobs, read_run_jobs(run, fleet));
  GPEMU_TRY(scheduling::check_policy(*policy, fleet, jobs));
  scheduling::PolicySettings settings;
  if (run.round_s > 0) settings.round_s = run.round_s;
  const std::unique_ptr<scheduling::Policy> made = policy->make(settings);
  GPEMU_ASSIGN(const scheduling::SimulationResult result,
               scheduling::simulate(
                   fleet, jobs, *made,
                   {.accounting = accounting_of(run.accounting), .progress = {}, .stop = &stop}));
  const ScheduleMetrics metrics = scheduling::metrics_of(fleet, jobs, result);
  RunResult::Values values;
  for (const ScheduleQuantity& quantity : kScheduleQuantities) {
    values.emplace_back(quantity.name, quantity.of(metrics));
  }
  return RunResult(std::move(values));
}

Result<RunResult> fill_fleet(const profile::ExperimentRun& run, const std::atomic<bool>& stop) {
  GPEMU_ASSIGN(const scheduling::Fleet fleet, fleet_of_run(run));
  GPEMU_ASSIGN(const std::vector<scheduling::Job> jobs,
               scheduling::read_jobs(run.jobs, {.fleet = &fleet, .timeless = true}));
  GPEMU_ASSIGN(const scheduling::PlacementEntry* placement,
               scheduling::find_placement(run.placement));
  FilledFleet mean;
  for (int i = 0; i < run.seeds; ++i) {
    const std::uint64_t seed = run.seed + static_cast<std::uint64_t>(i);
    GPEMU_ASSIGN(const scheduling::FillResult result,
                 scheduling::fill(fleet, jobs, *placement,
                                  {.load = run.load, .seed = seed, .progress = {}, .stop = &stop}));
    mean.allocated_percent += result.allocated_percent.back() / run.seeds;
    mean.fragmented_percent += result.fragmented_percent.back() / run.seeds;
    mean.left_out_percent += 100 * static_cast<double>(result.left_out) /
                             static_cast<double>(result.arrived) / run.seeds;
  }
  RunResult::Values values;
  for (const FillQuantity& quantity : kFillQuantities) {
    values.emplace_back(quantity.name, mean.*quantity.of);
  }
  return RunResult(std::move(values));
}

}  // namespace gpemu::experiment
