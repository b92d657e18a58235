// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/progress.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/scheduling/accounting.hpp"
#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/fleet_table.hpp"
#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/registry.hpp"
#include "gpemu/scheduling/simulator.hpp"

#include "cli/command_line.hpp"
#include "cli/in_parallel.hpp"
#include "cli/interrupt.hpp"
#include "schedule/schedule_report.hpp"

namespace gpemu::tools {
namespace {

using scheduling::Accounting;
using scheduling::AccountingEntry;
using scheduling::Fleet;
using scheduling::Job;
using scheduling::PolicyEntry;

struct ScheduleOptions {
  std::vector<std::string> tables;
  std::vector<std::string> policies;
  std::vector<std::string> fleets;
  std::vector<int> servers;
  std::uint64_t gpus = 8;
  std::uint64_t threads = 0;
  std::filesystem::path speeds;
  std::optional<double> round_s;
  std::string accounting{scheduling::accountings().front().name};
  double restart_s = 0;
  std::filesystem::path restarts;
  std::filesystem::path json;
  std::filesystem::path report;
  std::filesystem::path per_job;
  bool quiet = false;
};

/// A fleet, and the tables of jobs as it sees them.
struct NamedFleet {
  std::string name;
  Fleet fleet;
  std::vector<std::vector<Job>> tables{};
};

/// One policy on one table and fleet.
struct ScheduleRun {
  const NamedFleet* fleet = nullptr;
  std::size_t table = 0;
  const PolicyEntry* policy = nullptr;
  Result<ScheduleRow> row{};
};

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const PolicyEntry& policy : scheduling::policies()) names.push_back(policy.name);
  return names;
}

std::vector<std::string_view> accounting_names() {
  std::vector<std::string_view> names;
  for (const AccountingEntry& entry : scheduling::accountings()) names.push_back(entry.name);
  return names;
}

Result<std::vector<NamedFleet>> fleets_of(const ScheduleOptions& options) {
  std::vector<NamedFleet> fleets;
  for (const std::string& path : options.fleets) {
    GPEMU_ASSIGN(Fleet fleet, scheduling::read_fleet(path));
    fleets.push_back(
        {.name = std::filesystem::path(path).filename().string(), .fleet = std::move(fleet)});
  }
  for (const int servers : options.servers) {
    GPEMU_ASSIGN(Fleet fleet, Fleet::uniform(static_cast<std::uint64_t>(servers), options.gpus));
    fleets.push_back(
        {.name = fmt::format("{}x{}", servers, options.gpus), .fleet = std::move(fleet)});
  }
  if (!fleets.empty()) return fleets;
  return fail(ErrorCode::kInvalidArgument, "which fleet? Give --servers COUNT, or --fleet FILE");
}

/// Adds the wanted policies to the runs; without --policy, those that can serve the jobs.
Result<void> add_runs(const ScheduleOptions& options, const NamedFleet& fleet, std::size_t table,
                      std::vector<ScheduleRun>& runs) {
  for (const PolicyEntry& entry : scheduling::policies()) {
    const bool wanted = options.policies.empty() ||
                        std::ranges::find(options.policies, entry.name) != options.policies.end();
    if (!wanted) continue;
    auto can = scheduling::check_policy(entry, fleet.fleet, fleet.tables[table]);
    if (can) {
      runs.push_back({.fleet = &fleet, .table = table, .policy = &entry});
    } else if (!options.policies.empty()) {
      return std::unexpected(std::move(can).error());
    }
  }
  return {};
}

/// Returns why policies that serve most jobs cannot serve those of a table.
std::string why_none(const NamedFleet& fleet, std::size_t table) {
  const PolicyEntry& fifo = **scheduling::find_policy("fifo");
  const auto can = scheduling::check_policy(fifo, fleet.fleet, fleet.tables[table]);
  return can ? "" : can.error().message;
}

Result<ScheduleRow> simulate_run(const ScheduleOptions& options, const ScheduleRun& run,
                                 Accounting accounting, std::atomic<std::int64_t>& ended,
                                 const std::atomic<bool>& stop) {
  const Fleet& fleet = run.fleet->fleet;
  const std::vector<Job>& jobs = run.fleet->tables[run.table];
  std::int64_t mine = 0;
  const auto note = [&](std::size_t count) {
    const auto now = static_cast<std::int64_t>(count);
    ended += now - mine;
    mine = now;
  };
  const scheduling::SimulationOptions how{
      .accounting = accounting, .progress = note, .stop = &stop};
  const std::unique_ptr<scheduling::Policy> policy = run.policy->make({.round_s = options.round_s});
  const Result<scheduling::SimulationResult> result =
      scheduling::simulate(fleet, jobs, *policy, how);
  const std::string& table = options.tables[run.table];
  if (!result) return fail(result.error().code, "{}: {}", table, result.error().message);
  note(jobs.size());
  ScheduleRow row = schedule_row(fleet, jobs, *result, !options.per_job.empty());
  row.table = table;
  row.fleet = run.fleet->name;
  row.policy = run.policy->name;
  return row;
}

Result<std::vector<ScheduleRow>> simulate_all(const ScheduleOptions& options, const World& world) {
  GPEMU_ASSIGN(const Accounting accounting, scheduling::find_accounting(options.accounting));
  GPEMU_ASSIGN(std::vector<NamedFleet> fleets, fleets_of(options));
  std::vector<ScheduleRun> runs;
  std::int64_t jobs = 0;
  for (NamedFleet& fleet : fleets) {
    for (const std::string& table : options.tables) {
      GPEMU_ASSIGN(std::vector<Job> read, scheduling::read_jobs({.jobs = table,
                                                                 .speeds = options.speeds,
                                                                 .restarts = options.restarts,
                                                                 .restart_s = options.restart_s,
                                                                 .accounting = accounting},
                                                                fleet.fleet));
      fleet.tables.push_back(std::move(read));
    }
    for (std::size_t table = 0; table < options.tables.size(); ++table) {
      const std::size_t before = runs.size();
      GPEMU_TRY(add_runs(options, fleet, table, runs));
      if (runs.size() == before) {
        return fail(ErrorCode::kInvalidArgument, "no policy can serve the jobs of {}: {}",
                    options.tables[table], why_none(fleet, table));
      }
      jobs += static_cast<std::int64_t>(fleet.tables[table].size() * (runs.size() - before));
    }
  }
  const InterruptGuard interrupt;
  report::Progress progress({.label = "scheduling", .unit = "jobs", .images = 0}, jobs,
                            options.quiet, world.progress_host());
  std::atomic<std::int64_t> ended{0};
  const std::uint64_t threads =
      options.threads != 0 ? options.threads : std::thread::hardware_concurrency();
  in_parallel(
      runs.size(), threads,
      [&](std::size_t i) {
        runs[i].row = simulate_run(options, runs[i], accounting, ended, interrupt.flag());
      },
      [&](std::size_t) { progress.update(ended); });
  progress.clear();
  std::vector<ScheduleRow> rows;
  for (ScheduleRun& run : runs) {
    if (!run.row) return std::unexpected(std::move(run.row).error());
    rows.push_back(*std::move(run.row));
  }
  return rows;
}

Result<void> run_schedule(const ScheduleOptions& options, const World& world) {
  GPEMU_TRY(
      report::check_outputs({report::file_of(options.json), options.report, options.per_job}));
  const report::Provenance provenance = report::provenance_at(world.time_of_day());
  GPEMU_ASSIGN(const std::vector<ScheduleRow> rows, simulate_all(options, world));
  if (!options.quiet && !report::is_printed(options.json)) {
    report::print_out("{}", schedule_text(rows, world.terminal()));
  }
  if (!options.report.empty()) {
    GPEMU_TRY(write_file_atomically(options.report, schedule_page(rows, provenance)));
  }
  if (!options.per_job.empty()) {
    GPEMU_TRY(write_file_atomically(options.per_job, schedule_job_lines(rows)));
  }
  if (options.json.empty()) return {};
  return report::write_json(options.json, report::json_text(schedule_json(rows, provenance)));
}

std::string schedule_notes() {
  std::string notes = "Policies:\n";
  for (const PolicyEntry& policy : scheduling::policies()) {
    notes += fmt::format("  {:<18}{}\n", policy.name, policy.meaning);
  }
  notes += "\nAccountings: when a job pays its restart time\n";
  for (const AccountingEntry& entry : scheduling::accountings()) {
    notes += fmt::format("  {:<18}{}\n", entry.name, entry.meaning);
  }
  notes +=
      "\n"
      "Examples:\n"
      "  gpemu schedule jobs.csv --servers 8 --report schedules.html\n"
      "  gpemu schedule jobs.csv --servers 8 16 --policy las gittins\n"
      "  gpemu schedule jobs.csv --fleet servers.csv --speeds speeds.csv --per-job jobs-out.csv\n"
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
  command
      .option("--servers", options->servers,
              "How many servers the fleet has; several numbers compare fleets")
      .positive();
  command.option("--gpus", options->gpus, "How many GPUs each of them has").show_default();
  command.option("--fleet", options->fleets,
                 "CSV files of servers with different GPUs, cores and memory, each a fleet "
                 "(docs/reference/fleet-tables.md)");
  command.option("--speeds", options->speeds,
                 "A CSV file of how fast models are on which GPUs, with how many cores");
  command
      .option("--policy", options->policies, "The policies; by default all that can serve the jobs")
      .one_of(policy_names());
  command.option("--accounting", options->accounting, "When jobs pay their restart time")
      .one_of(accounting_names())
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
  command.option("--threads", options->threads,
                 "How many simulations at once; by default as many as there are processors");
  command.option("--report", options->report, "Write an HTML page with tables and plots");
  command.option("--per-job", options->per_job, "Write a CSV file of what became of each job");
  command.option("--json", options->json,
                 "Write the results as JSON; - prints it instead of the table");
  command.flag("--quiet", options->quiet, "No progress, no table");
  command.notes(schedule_notes());
  command.on_run([options, &world] { return run_schedule(*options, world); });
}

}  // namespace gpemu::tools
