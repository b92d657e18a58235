// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/experiment/host_speeds.hpp"
#include "gpemu/experiment/run_experiment.hpp"
#include "gpemu/profile/experiment_spec.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/progress.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"

#include "cli/command_line.hpp"
#include "cli/interrupt.hpp"
#include "experiment/experiment_report.hpp"

namespace gpemu::tools {
namespace {

struct SpeedsOptions {
  std::string name;
  experiment::HostGrid grid;
  std::optional<std::int64_t> base_cores;
  std::optional<double> base_memory_gib;
  std::filesystem::path output;
  bool quiet = false;
};

struct ExperimentOptions {
  std::vector<std::string> names;
  bool all = false;
  std::filesystem::path json;
  std::filesystem::path report;
  bool quiet = false;
};

using Results = std::vector<experiment::ExperimentResult>;

Result<std::vector<profile::ExperimentSpec>> chosen(const ExperimentOptions& options,
                                                    const World& world) {
  if (options.names.empty() && !options.all) {
    return fail(ErrorCode::kInvalidArgument,
                "which experiment? Name one, or use --all; `gpemu experiment list` lists them");
  }
  if (!options.names.empty() && options.all) {
    return fail(ErrorCode::kInvalidArgument, "--all excludes names of experiments");
  }
  std::vector<profile::ExperimentSpec> specs;
  for (const std::string& name :
       options.all ? profile::experiment_names(world.experiments) : options.names) {
    GPEMU_ASSIGN(profile::ExperimentSpec spec, profile::find_experiment(world.experiments, name));
    specs.push_back(std::move(spec));
  }
  return specs;
}

experiment::ExperimentRunner runner_of(const World& world, const profile::Database& database) {
  return experiment::ExperimentRunner(
      {.hosts = world.hosts, .storage = world.storage, .datasets = world.experiments / "datasets"},
      database);
}

/// Runs the experiments; calls `show` with each result as soon as it is there.
Result<Results> run_all(const ExperimentOptions& options, const World& world,
                        const std::function<void(const experiment::ExperimentResult&)>& show) {
  GPEMU_ASSIGN(std::vector<profile::ExperimentSpec> specs, chosen(options, world));
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  experiment::ExperimentRunner runner = runner_of(world, database);
  const InterruptGuard interrupt;
  Results results;
  for (profile::ExperimentSpec& spec : specs) {
    const std::size_t runs = spec.rows.size() * spec.variants.size();
    report::Progress progress({.label = spec.name, .unit = "runs"}, static_cast<std::int64_t>(runs),
                              options.quiet, world.progress_host());
    GPEMU_ASSIGN(experiment::ExperimentResult result,
                 runner.run(std::move(spec), interrupt.flag(), [&progress](std::size_t done) {
                   progress.update(static_cast<std::int64_t>(done));
                 }));
    progress.clear();
    show(result);
    results.push_back(std::move(result));
  }
  return results;
}

Result<void> run_experiments(const ExperimentOptions& options, const World& world) {
  GPEMU_TRY(report::check_outputs({report::file_of(options.json), options.report}));
  const report::Provenance provenance = report::provenance_at(world.time_of_day());
  const bool prints = !options.quiet && !report::is_printed(options.json);
  GPEMU_ASSIGN(const Results results,
               run_all(options, world, [&](const experiment::ExperimentResult& result) {
                 if (!prints) return;
                 report::print_out("{}\n", experiment_text(result, world.terminal()));
               }));
  if (prints) report::print_out("{}\n", counts_text(count_checks(results)));
  if (!options.json.empty()) {
    GPEMU_TRY(
        report::write_json(options.json, report::json_text(experiments_json(results, provenance))));
  }
  if (!options.report.empty()) {
    GPEMU_TRY(write_file_atomically(options.report, experiments_page(results, provenance)));
  }
  return {};
}

Result<int> check_experiments(ExperimentOptions options, const World& world) {
  options.all = options.names.empty();
  GPEMU_ASSIGN(const Results results,
               run_all(options, world, [](const experiment::ExperimentResult& result) {
                 report::print_out("{}\n{}\n", result.spec.name, checks_text(result));
               }));
  const CheckCounts counts = count_checks(results);
  report::print_out("{}\n", counts_text(counts));
  return counts.missed == 0 ? 0 : 1;
}

/// Checks that the base is one of the hosts of the grid; by default, it is the last.
Result<void> settle_base(SpeedsOptions& options) {
  const experiment::HostGrid& grid = options.grid;
  if (!options.base_cores) options.base_cores = grid.cores.back();
  if (std::ranges::find(grid.cores, *options.base_cores) == grid.cores.end()) {
    return fail(ErrorCode::kInvalidArgument, "--base-cores {} is not one of --cores",
                *options.base_cores);
  }
  if (grid.memory_gib.empty()) {
    if (!options.base_memory_gib) return {};
    return fail(ErrorCode::kInvalidArgument, "--base-memory needs --memory");
  }
  if (!options.base_memory_gib) options.base_memory_gib = grid.memory_gib.back();
  if (std::ranges::find(grid.memory_gib, *options.base_memory_gib) != grid.memory_gib.end()) {
    return {};
  }
  return fail(ErrorCode::kInvalidArgument, "--base-memory {} is not one of --memory",
              *options.base_memory_gib);
}

Result<void> write_speeds(SpeedsOptions options, const World& world) {
  GPEMU_TRY(settle_base(options));
  if (!options.output.empty()) GPEMU_TRY(report::check_outputs({options.output}));
  GPEMU_ASSIGN(const profile::ExperimentSpec spec,
               profile::find_experiment(world.experiments, options.name));
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  experiment::ExperimentRunner runner = runner_of(world, database);
  const experiment::HostGrid& grid = options.grid;
  const std::size_t runs = spec.rows.size() * std::max<std::size_t>(grid.gpus.size(), 1) *
                           grid.cores.size() * std::max<std::size_t>(grid.memory_gib.size(), 1);
  const InterruptGuard interrupt;
  report::Progress progress({.label = spec.name, .unit = "runs"}, static_cast<std::int64_t>(runs),
                            options.quiet, world.progress_host());
  GPEMU_ASSIGN(
      const std::vector<experiment::HostSpeed> speeds,
      experiment::host_speeds(runner, spec, grid, interrupt.flag(), [&progress](std::size_t done) {
        progress.update(static_cast<std::int64_t>(done));
      }));
  progress.clear();
  const std::string table = experiment::speed_table(speeds, static_cast<int>(*options.base_cores),
                                                    options.base_memory_gib.value_or(0));
  if (!options.output.empty()) return write_file_atomically(options.output, table);
  report::print_out("{}", table);
  return {};
}

Result<void> list_experiments(const World& world) {
  report::TextTable table({"experiment", "result"});
  for (const std::string& name : profile::experiment_names(world.experiments)) {
    GPEMU_ASSIGN(const profile::ExperimentSpec spec,
                 profile::find_experiment(world.experiments, name));
    table.add_row({spec.name, spec.title});
  }
  report::print_out("{}", table.str(world.terminal().output_columns));
  return {};
}

void add_speeds_command(Command command, const World& world) {
  auto options = std::make_shared<SpeedsOptions>();
  Command speeds = command.subcommand(
      "speeds",
      "Write how fast an experiment's rows train with how many cores and how much memory, as a "
      "table for `gpemu schedule --speeds`");
  speeds.option("NAME", options->name, "The name of an experiment, or the path of a TOML file")
      .required();
  speeds
      .option("--cores", options->grid.cores,
              "Numbers of cores for each GPU, which are the workers of its loader")
      .required()
      .range(1, 1024);
  speeds
      .option("--memory", options->grid.memory_gib,
              "Amounts of memory for each GPU, in GiB, which cache that much of the data set; by "
              "default as the rows say")
      .positive();
  speeds.option("--gpu", options->grid.gpus,
                "GPUs (`gpemu profile list`); by default the one of each row");
  speeds.option("--base-cores", options->base_cores,
                "With so many of --cores, a speed is 1; by default with the last");
  speeds.option("--base-memory", options->base_memory_gib,
                "With so much of --memory, a speed is 1; by default with the last");
  speeds.option("--output", options->output, "Write the table to this file; by default print it");
  speeds.flag("--quiet", options->quiet, "No progress");
  speeds.notes(
      "Examples:\n"
      "  gpemu experiment speeds synergy-sensitivity --cores 1 2 3 6 9 12 --base-cores 3\n"
      "  gpemu experiment speeds ./models.toml --cores 2 4 8 --memory 32 64 --output speeds.csv\n"
      "  gpemu experiment speeds ./models.toml --gpu V100-PCIE-32GB A100-SXM4-40GB --cores 4 8\n");
  speeds.on_run([options, &world] { return write_speeds(*options, world); });
}

}  // namespace

void add_experiment_command(Command app, const World& world) {
  Command command = app.subcommand(
      "experiment",
      "Get the results of papers about the data path and placements again, on described hosts");
  command.require_subcommand();
  command.notes(
      "An experiment trains on described hosts in virtual time: their processors, caches, disks\n"
      "and networks are simulated (docs/how-to/reproduce-a-paper.md).\n"
      "\n"
      "Examples:\n"
      "  gpemu experiment list\n"
      "  gpemu experiment run coordl\n"
      "  gpemu experiment run --all --report papers.html\n"
      "  gpemu experiment run ./my-experiment.toml --json -\n");
  auto options = std::make_shared<ExperimentOptions>();

  Command list = command.subcommand("list", "List the experiments");
  list.on_run([&world] { return list_experiments(world); });

  Command run = command.subcommand(
      "run", "Run experiments, and show their numbers beside those of the paper and of GPEmu");
  run.option("NAME", options->names, "Names of experiments, or paths of TOML files");
  run.flag("--all", options->all, "Run all experiments");
  run.option("--json", options->json,
             "Write the results as JSON; - prints it instead of the tables");
  run.option("--report", options->report, "Write an HTML page with tables and plots");
  run.flag("--quiet", options->quiet, "No progress, no tables");
  run.notes(
      "Examples:\n"
      "  gpemu experiment run small-files-first\n"
      "  gpemu experiment run --all --report papers.html --json papers.json\n");
  run.on_run([options, &world] { return run_experiments(*options, world); });

  Command check = command.subcommand(
      "check", "Run experiments, and fail if a check is missed that has no stated reason");
  check.option("NAME", options->names,
               "Names of experiments, or paths of TOML files; by default all");
  check.flag("--quiet", options->quiet, "No progress");
  check.notes("Example:\n  gpemu experiment check coordl ladl\n");
  check.on_run([options, &world]() -> Result<int> { return check_experiments(*options, world); });

  add_speeds_command(command, world);
}

}  // namespace gpemu::tools
