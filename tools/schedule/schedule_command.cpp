// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/report/json_text.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/progress.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/scheduling/fleet_table.hpp"
#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/registry.hpp"
#include "gpemu/scheduling/simulator.hpp"

#include "cli/command_line.hpp"
#include "cli/interrupt.hpp"
#include "schedule/schedule_report.hpp"

namespace gpemu::tools {
namespace {

using scheduling::Accounting;
using scheduling::Fleet;
using scheduling::Job;
using scheduling::PolicyEntry;

constexpr auto kAccountings = std::to_array<std::string_view>({"change", "muri", "free"});

struct ScheduleOptions {
  std::vector<std::string> tables;
  std::vector<std::string> policies;
  std::filesystem::path fleet;
  std::uint64_t servers = 0;
  std::uint64_t gpus = 8;
  std::filesystem::path speeds;
  std::optional<double> round_s;
  std::string accounting{kAccountings.front()};
  double restart_s = 0;
  std::filesystem::path restarts;
  std::filesystem::path json;
  bool quiet = false;
};

Accounting accounting_of(std::string_view word) {
  if (word == "muri") return Accounting::kMuri;
  return word == "free" ? Accounting::kFree : Accounting::kChange;
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const PolicyEntry& policy : scheduling::policies()) names.push_back(policy.name);
  return names;
}

Result<Fleet> fleet_of(const ScheduleOptions& options) {
  if (!options.fleet.empty()) return scheduling::read_fleet(options.fleet);
  if (options.servers == 0) {
    return fail(ErrorCode::kInvalidArgument, "which fleet? Give --servers COUNT, or --fleet FILE");
  }
  return Fleet::uniform(options.servers, options.gpus);
}

Result<std::vector<Job>> read_table(const ScheduleOptions& options, const Fleet& fleet,
                                    const std::string& table) {
  scheduling::JobTableOptions reading{.fleet = &fleet, .restart_s = options.restart_s};
  scheduling::SpeedTable speeds;
  if (!options.speeds.empty()) {
    GPEMU_ASSIGN(speeds, scheduling::read_speeds(options.speeds, fleet));
    reading.speeds = &speeds;
  }
  if (options.accounting == "muri") reading.iteration_factor = scheduling::kMuriIterationFactor;
  if (options.restarts.empty()) return scheduling::read_jobs(table, reading);
  GPEMU_ASSIGN(const scheduling::RestartTimes restarts,
               scheduling::read_restart_times(options.restarts));
  reading.restarts = &restarts;
  return scheduling::read_jobs(table, reading);
}

Result<std::vector<ScheduleRow>> simulate_all(const ScheduleOptions& options, const World& world) {
  GPEMU_ASSIGN(const Fleet fleet, fleet_of(options));
  const InterruptGuard interrupt;
  std::vector<ScheduleRow> rows;
  for (const std::string& table : options.tables) {
    GPEMU_ASSIGN(const std::vector<Job> jobs, read_table(options, fleet, table));
    for (const PolicyEntry& entry : scheduling::policies()) {
      const bool wanted = options.policies.empty() ||
                          std::ranges::find(options.policies, entry.name) != options.policies.end();
      if (!wanted) continue;
      if (auto can = scheduling::check_policy(entry, fleet, jobs); !can) {
        if (options.policies.empty()) continue;
        return std::unexpected(std::move(can).error());
      }
      report::Progress progress({.label = std::string(entry.name), .unit = "jobs", .images = 0},
                                static_cast<std::int64_t>(jobs.size()), options.quiet,
                                world.progress_host());
      const scheduling::SimulationOptions how{
          .accounting = accounting_of(options.accounting),
          .progress = [&](std::size_t ended) { progress.update(static_cast<std::int64_t>(ended)); },
          .stop = &interrupt.flag()};
      const std::unique_ptr<scheduling::Policy> policy = entry.make({.round_s = options.round_s});
      const Result<scheduling::SimulationResult> result =
          scheduling::simulate(fleet, jobs, *policy, how);
      progress.clear();
      if (!result) return fail(result.error().code, "{}: {}", table, result.error().message);
      rows.push_back({.table = table,
                      .policy = std::string(entry.name),
                      .jobs = jobs.size(),
                      .metrics = scheduling::metrics_of(fleet, jobs, *result)});
    }
  }
  return rows;
}

Result<void> run_schedule(const ScheduleOptions& options, const World& world) {
  GPEMU_TRY(report::check_outputs({report::file_of(options.json)}));
  const report::Provenance provenance = report::provenance_at(world.time_of_day());
  GPEMU_ASSIGN(const std::vector<ScheduleRow> rows, simulate_all(options, world));
  if (!options.quiet && !report::is_printed(options.json)) {
    report::print_out("{}", schedule_text(rows, world.terminal()));
  }
  if (options.json.empty()) return {};
  return report::write_json(options.json, report::json_text(schedule_json(rows, provenance)));
}

std::string schedule_notes() {
  std::string notes = "Policies:\n";
  for (const PolicyEntry& policy : scheduling::policies()) {
    notes += fmt::format("  {:<10}{}\n", policy.name, policy.meaning);
  }
  notes +=
      "\n"
      "With the accounting change, a job pays its restart time whenever it gets other GPUs; with\n"
      "free, never; with muri, as in Muri's simulator (docs/design/scheduling.md).\n"
      "\n"
      "Examples:\n"
      "  gpemu schedule jobs.csv --servers 8\n"
      "  gpemu schedule jobs.csv --servers 125 --gpus 4 --policy srtf tiresias --restart 30\n"
      "  gpemu schedule trace1.csv.gz --servers 8 --accounting muri --restarts restarts.csv\n";
  return notes;
}

}  // namespace

void add_schedule_command(Command app, const World& world) {
  Command command = app.subcommand(
      "schedule", "Compare scheduling policies on a fleet that does not exist, in virtual time");
  auto options = std::make_shared<ScheduleOptions>();
  command
      .option("TABLE", options->tables,
              "CSV files of jobs, also compressed by gzip (docs/reference/job-tables.md)")
      .required();
  command.option("--servers", options->servers, "How many servers the fleet has");
  command.option("--gpus", options->gpus, "How many GPUs each of them has").show_default();
  command
      .option("--fleet", options->fleet,
              "A CSV file of servers with different GPUs, cores and memory "
              "(docs/reference/fleet-tables.md)")
      .excludes("--servers")
      .excludes("--gpus");
  command.option("--speeds", options->speeds,
                 "A CSV file of how fast models are on which GPUs, with how many cores");
  command
      .option("--policy", options->policies, "The policies; by default all that can serve the jobs")
      .one_of(policy_names());
  command.option("--accounting", options->accounting, "When jobs pay their restart time")
      .one_of(kAccountings)
      .show_default();
  command.option("--restart", options->restart_s, "The restart time of every job, in seconds")
      .non_negative();
  command
      .option("--round", options->round_s,
              "The length of rounds, in seconds; by default as in the policy's paper")
      .positive();
  command
      .option("--restarts", options->restarts,
              "A CSV file of restart times, by model and number of GPUs")
      .excludes("--restart");
  command.option("--json", options->json,
                 "Write the results as JSON; - prints it instead of the table");
  command.flag("--quiet", options->quiet, "No progress, no table");
  command.notes(schedule_notes());
  command.on_run([options, &world] { return run_schedule(*options, world); });
}

}  // namespace gpemu::tools
