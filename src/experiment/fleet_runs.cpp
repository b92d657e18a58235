// SPDX-License-Identifier: Apache-2.0
#include "fleet_runs.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/scheduling/accounting.hpp"
#include "gpemu/scheduling/fill.hpp"
#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/fleet_table.hpp"
#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/placement.hpp"
#include "gpemu/scheduling/registry.hpp"
#include "gpemu/scheduling/schedule_metrics.hpp"
#include "gpemu/scheduling/simulator.hpp"

namespace gpemu::experiment {
namespace {

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

Result<scheduling::Fleet> fleet_of_run(const profile::ExperimentRun& run) {
  if (!run.fleet.empty()) return scheduling::read_fleet(run.fleet);
  return scheduling::Fleet::uniform(static_cast<std::uint64_t>(run.servers),
                                    static_cast<std::uint64_t>(run.gpus));
}

Result<std::vector<scheduling::Job>> read_run_jobs(const profile::ExperimentRun& run,
                                                   const scheduling::Fleet& fleet,
                                                   scheduling::Accounting accounting) {
  GPEMU_ASSIGN(std::vector<scheduling::Job> jobs, scheduling::read_jobs({.jobs = run.jobs,
                                                                         .speeds = run.speeds,
                                                                         .restarts = run.restarts,
                                                                         .restart_s = run.restart_s,
                                                                         .accounting = accounting},
                                                                        fleet));
  const auto first = static_cast<std::size_t>(run.first_jobs);
  if (first != 0 && first < jobs.size()) jobs.resize(first);
  return jobs;
}

}  // namespace

std::vector<Quantity> fleet_quantities() {
  std::vector<Quantity> all;
  for (const scheduling::ScheduleFigure& figure : scheduling::schedule_figures()) {
    all.push_back({.name = figure.name, .meaning = figure.meaning});
  }
  for (const FillQuantity& quantity : kFillQuantities) {
    all.push_back({.name = quantity.name, .meaning = quantity.meaning});
  }
  return all;
}

Result<RunResult> schedule_jobs(const profile::ExperimentRun& run, const std::atomic<bool>& stop) {
  GPEMU_ASSIGN(const scheduling::PolicyEntry* policy, scheduling::find_policy(run.policy));
  GPEMU_ASSIGN(const scheduling::Accounting accounting,
               scheduling::find_accounting(run.accounting));
  GPEMU_ASSIGN(const scheduling::Fleet fleet, fleet_of_run(run));
  GPEMU_ASSIGN(const std::vector<scheduling::Job> jobs, read_run_jobs(run, fleet, accounting));
  GPEMU_TRY(scheduling::check_policy(*policy, fleet, jobs));
  scheduling::PolicySettings settings;
  if (run.round_s > 0) settings.round_s = run.round_s;
  GPEMU_TRY(scheduling::check_settings({{policy}}, settings));
  const std::unique_ptr<scheduling::Policy> made = policy->make(settings);
  GPEMU_ASSIGN(const scheduling::SimulationResult result,
               scheduling::simulate(fleet, jobs, *made,
                                    {.accounting = accounting, .progress = {}, .stop = &stop}));
  const scheduling::ScheduleMetrics metrics = scheduling::metrics_of(fleet, jobs, result);
  RunResult::Values values;
  for (const scheduling::ScheduleFigure& figure : scheduling::schedule_figures()) {
    values.emplace_back(figure.name, figure.of(metrics));
  }
  return RunResult(std::move(values));
}

Result<RunResult> fill_fleet(const profile::ExperimentRun& run, const std::atomic<bool>& stop) {
  GPEMU_ASSIGN(const scheduling::Fleet fleet, fleet_of_run(run));
  GPEMU_ASSIGN(const std::vector<scheduling::Job> jobs,
               scheduling::read_jobs(run.jobs, {.fleet = &fleet, .timeless = true}));
  GPEMU_ASSIGN(const scheduling::PlacementEntry* placement,
               scheduling::find_placement(run.placement));
  scheduling::FillOptions options{.progress = {}, .stop = &stop};
  if (run.load > 0) options.load = run.load;
  FilledFleet mean;
  for (int i = 0; i < run.seeds; ++i) {
    options.seed = run.seed + static_cast<std::uint64_t>(i);
    GPEMU_ASSIGN(const scheduling::FillResult result,
                 scheduling::fill(fleet, jobs, *placement, options));
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
