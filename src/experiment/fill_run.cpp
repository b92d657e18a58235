// SPDX-License-Identifier: Apache-2.0
#include "fill_run.hpp"

#include <cstdint>
#include <vector>

#include "gpemu/scheduling/fill.hpp"
#include "gpemu/scheduling/fleet_table.hpp"
#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/placement.hpp"

namespace gpemu::experiment {

Result<FilledFleet> run_fill(const profile::ExperimentRun& run, const std::filesystem::path& folder,
                             const std::atomic<bool>& stop) {
  GPEMU_ASSIGN(const scheduling::PlacementEntry* placement,
               scheduling::find_placement(run.placement));
  GPEMU_ASSIGN(const scheduling::Fleet fleet, scheduling::read_fleet(folder / run.fleet));
  GPEMU_ASSIGN(const std::vector<scheduling::Job> jobs,
               scheduling::read_jobs(folder / run.jobs, {.fleet = &fleet, .timeless = true}));
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
  return mean;
}

}  // namespace gpemu::experiment
