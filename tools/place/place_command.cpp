// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gpemu/report/json_text.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/progress.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/scheduling/fill.hpp"
#include "gpemu/scheduling/fleet_table.hpp"
#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/placement.hpp"

#include "cli/command_line.hpp"
#include "cli/in_parallel.hpp"
#include "cli/interrupt.hpp"
#include "place/place_report.hpp"

namespace gpemu::tools {
namespace {

using scheduling::FillResult;
using scheduling::Fleet;
using scheduling::Job;
using scheduling::PlacementEntry;

struct PlaceOptions {
  std::vector<std::string> tables;
  std::filesystem::path fleet;
  std::vector<std::string> placements;
  double load = scheduling::FillOptions().load;
  std::uint64_t seed = scheduling::FillOptions().seed;
  std::uint64_t seeds = 1;
  std::uint64_t threads = 0;
  std::filesystem::path json;
  bool quiet = false;
};

constexpr std::uint64_t kMostSeeds = 100'000;

std::vector<std::string_view> placement_names() {
  std::vector<std::string_view> names;
  for (const PlacementEntry& placement : scheduling::placements()) names.push_back(placement.name);
  return names;
}

/// A filling to be done, and its result.
struct PlaceRun {
  const std::string* table = nullptr;
  const std::vector<Job>* jobs = nullptr;
  const PlacementEntry* placement = nullptr;
  std::uint64_t seed = 0;
  std::optional<Result<FillResult>> result;
};

/// The tables, and the fillings of which each is a part.
struct PlaceRuns {
  std::vector<std::vector<Job>> jobs;
  std::vector<PlaceRun> runs;
};

Result<PlaceRuns> runs_of(const PlaceOptions& options, const Fleet& fleet) {
  PlaceRuns all;
  for (const std::string& table : options.tables) {
    GPEMU_ASSIGN(std::vector<Job> jobs,
                 scheduling::read_jobs(table, {.fleet = &fleet, .timeless = true}));
    all.jobs.push_back(std::move(jobs));
  }
  for (std::size_t i = 0; i < options.tables.size(); ++i) {
    for (const PlacementEntry& placement : scheduling::placements()) {
      const bool wanted =
          options.placements.empty() ||
          std::ranges::find(options.placements, placement.name) != options.placements.end();
      for (std::uint64_t seed = 0; wanted && seed < options.seeds; ++seed) {
        all.runs.push_back({.table = &options.tables[i],
                            .jobs = &all.jobs[i],
                            .placement = &placement,
                            .seed = options.seed + seed,
                            .result = {}});
      }
    }
  }
  return all;
}

Result<std::vector<PlaceRow>> place_all(const PlaceOptions& options, const World& world) {
  GPEMU_ASSIGN(const Fleet fleet, scheduling::read_fleet(options.fleet));
  GPEMU_ASSIGN(PlaceRuns all, runs_of(options, fleet));
  const InterruptGuard interrupt;
  report::Progress progress({.label = "placing", .unit = "runs", .images = 0},
                            static_cast<std::int64_t>(all.runs.size()), options.quiet,
                            world.progress_host());
  const std::uint64_t threads =
      options.threads != 0 ? options.threads : std::thread::hardware_concurrency();
  in_parallel(
      all.runs.size(), threads,
      [&](std::size_t i) {
        PlaceRun& run = all.runs[i];
        run.result = scheduling::fill(
            fleet, *run.jobs, *run.placement,
            {.load = options.load, .seed = run.seed, .progress = {}, .stop = &interrupt.flag()});
      },
      [&](std::size_t done) { progress.update(static_cast<std::int64_t>(done)); });
  progress.clear();
  std::vector<PlaceRow> rows;
  for (PlaceRun& run : all.runs) {
    if (!*run.result) {
      const Error& error = run.result->error();
      return fail(error.code, "{}: {}", *run.table, error.message);
    }
    rows.push_back({.table = *run.table,
                    .placement = std::string(run.placement->name),
                    .seed = run.seed,
                    .result = **std::move(run.result)});
  }
  return rows;
}

Result<void> run_place(const PlaceOptions& options, const World& world) {
  GPEMU_TRY(report::check_outputs({report::file_of(options.json)}));
  if (options.seeds == 0 || options.seeds > kMostSeeds) {
    return fail(ErrorCode::kInvalidArgument, "--seeds is {}; it may be 1 to {}", options.seeds,
                kMostSeeds);
  }
  const report::Provenance provenance = report::provenance_at(world.time_of_day());
  GPEMU_ASSIGN(const std::vector<PlaceRow> rows, place_all(options, world));
  if (!options.quiet && !report::is_printed(options.json)) {
    report::print_out("{}", place_text(rows, world.terminal()));
  }
  if (options.json.empty()) return {};
  return report::write_json(options.json,
                            report::json_text(place_json(rows, options.load, provenance)));
}

std::string place_notes() {
  std::string notes = "Placements:\n";
  for (const PlacementEntry& placement : scheduling::placements()) {
    notes += fmt::format("  {:<16}{}\n", placement.name, placement.meaning);
  }
  notes +=
      "\n"
      "Jobs of a table arrive in a random order until they have asked for the load; none ends, "
      "and\n"
      "those that do not fit are left out. With the seeds 42 to 51, FGD's experiments are run "
      "again\n"
      "(docs/design/scheduling.md).\n"
      "\n"
      "Examples:\n"
      "  gpemu place default.csv.gz --fleet servers.csv.gz\n"
      "  gpemu place *.csv.gz --fleet servers.csv --placement fgd best-fit --seeds 10 --json -\n";
  return notes;
}

}  // namespace

void add_place_command(Command app, const World& world) {
  Command command =
      app.subcommand("place", "Fill a fleet that does not exist, and compare where jobs are put");
  auto options = std::make_shared<PlaceOptions>();
  command
      .option("TABLE", options->tables,
              "CSV files of jobs, also compressed by gzip (docs/reference/job-tables.md)")
      .required();
  command
      .option("--fleet", options->fleet, "A CSV file of servers (docs/reference/fleet-tables.md)")
      .required();
  command.option("--placement", options->placements, "The placements; by default all")
      .one_of(placement_names());
  command
      .option("--load", options->load,
              "How many times the fleet's GPUs the jobs ask for, all together")
      .positive()
      .show_default();
  command.option("--seed", options->seed, "The first seed of what is drawn").show_default();
  command.option("--seeds", options->seeds, "How many seeds, from the first on").show_default();
  command.option("--threads", options->threads,
                 "How many runs at once; by default as many as there are processors");
  command.option("--json", options->json,
                 "Write all runs as JSON; - prints it instead of the table");
  command.flag("--quiet", options->quiet, "No progress, no table");
  command.notes(place_notes());
  command.on_run([options, &world] { return run_place(*options, world); });
}

}  // namespace gpemu::tools
