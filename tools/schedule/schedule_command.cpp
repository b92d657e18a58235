// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
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

/// What is to be simulated. The runs refer to the fleets.
struct SchedulePlan {
  std::vector<NamedFleet> fleets;
  std::vector<std::string> tables;  ///< their names in the results.
  std::vector<ScheduleRun> runs;
  std::vector<ScheduleGap> left_out;
  std::int64_t jobs = 0;  ///< of all runs together.
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

/// Returns names for files: their own, and their paths where two have the same. Errors:
/// kInvalidArgument if a file is given twice.
Result<std::vector<std::string>> names_of(const std::vector<std::string>& paths) {
  std::map<std::string, int> files;
  std::set<std::string> all;
  for (const std::string& path : paths) {
    ++files[std::filesystem::path(path).filename().string()];
    if (all.insert(path).second) continue;
    return fail(ErrorCode::kInvalidArgument, "{} is given twice; give it once", path);
  }
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    std::string file = std::filesystem::path(path).filename().string();
    names.push_back(files[file] == 1 ? std::move(file) : path);
  }
  return names;
}

Result<std::vector<NamedFleet>> fleets_of(const ScheduleOptions& options) {
  std::vector<NamedFleet> fleets;
  GPEMU_ASSIGN(const std::vector<std::string> names, names_of(options.fleets));
  for (std::size_t i = 0; i < names.size(); ++i) {
    GPEMU_ASSIGN(Fleet fleet, scheduling::read_fleet(options.fleets[i]));
    fleets.push_back({.name = names[i], .fleet = std::move(fleet)});
  }
  for (const int servers : options.servers) {
    if (std::ranges::count(options.servers, servers) > 1) {
      return fail(ErrorCode::kInvalidArgument, "--servers has {} twice; give it once", servers);
    }
    GPEMU_ASSIGN(Fleet fleet, Fleet::uniform(static_cast<std::uint64_t>(servers), options.gpus));
    fleets.push_back(
        {.name = fmt::format("{}x{}", servers, options.gpus), .fleet = std::move(fleet)});
  }
  if (!fleets.empty()) return fleets;
  return fail(ErrorCode::kInvalidArgument, "which fleet? Give --servers COUNT, or --fleet FILE");
}

/// Adds the wanted policies to the runs; without --policy, those that can serve the jobs.
Result<void> add_runs(const ScheduleOptions& options, const NamedFleet& fleet, std::size_t table,
                      SchedulePlan& plan) {
  for (const PolicyEntry& entry : scheduling::policies()) {
    const bool wanted = options.policies.empty() ||
                        std::ranges::find(options.policies, entry.name) != options.policies.end();
    if (!wanted) continue;
    auto can = scheduling::check_policy(entry, fleet.fleet, fleet.tables[table]);
    if (can) {
      plan.runs.push_back({.fleet = &fleet, .table = table, .policy = &entry});
    } else if (options.policies.empty()) {
      plan.left_out.push_back({.table = plan.tables[table],
                               .fleet = fleet.name,
                               .policy = std::string(entry.name),
                               .reason = can.error().message});
    } else {
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
      .accounting = accounting,
      .progress = note,
      .stop = &stop,
      .keeps_stints = !options.report.empty() && has_gantt(fleet, jobs.size())};
  const std::unique_ptr<scheduling::Policy> policy = run.policy->make({.round_s = options.round_s});
  GPEMU_ASSIGN(const scheduling::SimulationResult result,
               scheduling::simulate(fleet, jobs, *policy, how));
  note(jobs.size());
  return schedule_row(fleet, jobs, result, !options.per_job.empty());
}

/// Reads all files and decides what runs.
Result<SchedulePlan> plan_of(const ScheduleOptions& options, Accounting accounting) {
  SchedulePlan plan;
  GPEMU_ASSIGN(plan.tables, names_of(options.tables));
  GPEMU_ASSIGN(plan.fleets, fleets_of(options));
  for (NamedFleet& fleet : plan.fleets) {
    for (std::size_t table = 0; table < options.tables.size(); ++table) {
      GPEMU_ASSIGN(std::vector<Job> read, scheduling::read_jobs({.jobs = options.tables[table],
                                                                 .speeds = options.speeds,
                                                                 .restarts = options.restarts,
                                                                 .restart_s = options.restart_s,
                                                                 .accounting = accounting},
                                                                fleet.fleet));
      fleet.tables.push_back(std::move(read));
      const std::size_t before = plan.runs.size();
      GPEMU_TRY(add_runs(options, fleet, table, plan));
      if (plan.runs.size() == before) {
        return fail(ErrorCode::kInvalidArgument, "no policy can serve the jobs of {}: {}",
                    options.tables[table], why_none(fleet, table));
      }
      plan.jobs +=
          static_cast<std::int64_t>(fleet.tables[table].size() * (plan.runs.size() - before));
    }
  }
  std::vector<const PolicyEntry*> policies;
  for (const ScheduleRun& run : plan.runs) policies.push_back(run.policy);
  auto has_effect = scheduling::check_settings(policies, {.round_s = options.round_s});
  if (!has_effect) return fail(has_effect.error().code, "--round: {}", has_effect.error().message);
  return plan;
}

/// Takes the results out of a plan. Errors: kInterrupted if a run was stopped.
Result<ScheduleResults> results_of(SchedulePlan& plan) {
  ScheduleResults results{.rows = {}, .left_out = std::move(plan.left_out), .failed = {}};
  for (ScheduleRun& run : plan.runs) {
    const std::string& table = plan.tables[run.table];
    if (run.row) {
      run.row->table = table;
      run.row->fleet = run.fleet->name;
      run.row->policy = run.policy->name;
      results.rows.push_back(*std::move(run.row));
    } else if (run.row.error().code == ErrorCode::kInterrupted) {
      return std::unexpected(std::move(run.row).error());
    } else {
      results.failed.push_back({.table = table,
                                .fleet = run.fleet->name,
                                .policy = std::string(run.policy->name),
                                .reason = run.row.error().message});
      results.code = run.row.error().code;
    }
  }
  return results;
}

Result<ScheduleResults> simulate_all(const ScheduleOptions& options, const World& world) {
  GPEMU_ASSIGN(const Accounting accounting, scheduling::find_accounting(options.accounting));
  GPEMU_ASSIGN(SchedulePlan plan, plan_of(options, accounting));
  const InterruptGuard interrupt;
  report::Progress progress({.label = "scheduling", .unit = "jobs", .images = 0}, plan.jobs,
                            options.quiet, world.progress_host());
  std::atomic<std::int64_t> ended{0};
  const std::uint64_t threads =
      options.threads != 0 ? options.threads : std::thread::hardware_concurrency();
  in_parallel(
      plan.runs.size(), threads,
      [&](std::size_t i) {
        ScheduleRun& run = plan.runs[i];
        run.row = simulate_run(options, run, accounting, ended, interrupt.flag());
      },
      [&](std::size_t) { progress.update(ended); });
  progress.clear();
  return results_of(plan);
}

/// Returns an error that names the simulations that failed; success if none did.
Result<void> check_failed(const ScheduleResults& results) {
  if (results.failed.empty()) return {};
  std::string text;
  for (const ScheduleGap& gap : results.failed) {
    text += fmt::format("\n{} on {}, policy {}: {}", gap.table, gap.fleet, gap.policy, gap.reason);
  }
  return fail(results.code, "{} of {} simulations failed:{}", results.failed.size(),
              results.failed.size() + results.rows.size(), text);
}

Result<void> write_results(const ScheduleOptions& options, const ScheduleResults& results,
                           const report::Provenance& provenance) {
  if (!options.report.empty()) {
    GPEMU_TRY(write_file_atomically(options.report, schedule_page(results, provenance)));
  }
  if (!options.per_job.empty()) {
    GPEMU_TRY(write_file_atomically(options.per_job, schedule_job_lines(results.rows)));
  }
  if (options.json.empty()) return {};
  return report::write_json(options.json, report::json_text(schedule_json(results, provenance)));
}

Result<void> run_schedule(const ScheduleOptions& options, const World& world) {
  GPEMU_TRY(
      report::check_outputs({report::file_of(options.json), options.report, options.per_job}));
  const report::Provenance provenance = report::provenance_at(world.time_of_day());
  GPEMU_ASSIGN(const ScheduleResults results, simulate_all(options, world));
  if (results.rows.empty()) return check_failed(results);
  if (!options.quiet && !report::is_printed(options.json)) {
    report::print_out("{}", schedule_text(results, world.terminal()));
  }
  GPEMU_TRY(write_results(options, results, provenance));
  return check_failed(results);
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
              "Tables of jobs, or published traces, also compressed by gzip "
              "(docs/reference/job-tables.md)")
      .required();
  command
      .option("--servers", options->servers,
              "How many servers the fleet has; several numbers compare fleets")
      .positive();
  command.option("--gpus", options->gpus, "How many GPUs each of them has")
      .show_default()
      .needs("--servers");
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
      .option(
          "--round", options->round_s,
          "The length of rounds, in seconds, of policies that have rounds; by default as in the "
          "policy's paper")
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
