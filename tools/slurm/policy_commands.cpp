// SPDX-License-Identifier: Apache-2.0
//
// The commands that let policies decide about Slurm's queue.
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/scheduling/fleet.hpp"

#include "cli/interrupt.hpp"
#include "live/live_options.hpp"
#include "live/replay_report.hpp"
#include "live/replay_tables.hpp"
#include "slurm/queue_replay.hpp"
#include "slurm/serve_queue.hpp"
#include "slurm/slurm_commands.hpp"
#include "slurm/slurm_programs.hpp"

namespace gpemu::tools {
namespace {

using scheduling::Fleet;
using scheduling::PolicyScope;

struct ScheduleChoices {
  LiveScheduleOptions decides;
  std::string partition;
  std::filesystem::path folder;
};

struct QueueReplayChoices {
  ReplayTableOptions tables;
  std::string partition;
  std::filesystem::path folder;
};

void print_line(const std::string& line) {
  report::print_error("gpemu-slurm: {}\n", line);
}

/// Errors: kUnsupported for policies that hand out what Slurm does.
Result<void> check_scope(const scheduling::PolicyEntry* policy) {
  if (policy == nullptr || policy->scope != PolicyScope::kHosts) return {};
  return fail(ErrorCode::kUnsupported,
              "the policy {} hands out cores and memory, which gpemu-slurm does not support: Slurm "
              "does that itself",
              policy->name);
}

Result<std::filesystem::path> existing_folder(const std::filesystem::path& folder) {
  if (folder.empty() || std::filesystem::is_directory(folder)) {
    return folder.empty() ? folder : std::filesystem::absolute(folder);
  }
  return fail(ErrorCode::kInvalidArgument,
              "--folder: {} is no folder; make it, where all machines see it", folder.string());
}

Result<void> schedule_queue(const ScheduleChoices& options, const World& world) {
  ServeQueueOptions serve{.settings = {.partition = options.partition, .decides = {}},
                          .folder = {}};
  GPEMU_ASSIGN(serve.settings.decides, live_settings_of(options.decides));
  GPEMU_TRY(check_scope(serve.settings.decides.policy));
  GPEMU_ASSIGN(serve.folder, existing_folder(options.folder));
  const InterruptGuard interrupt;
  return serve_queue(world, serve, interrupt.flag(), print_line);
}

/// Returns the nodes of a partition, as the scheduler shows them to policies.
Result<Fleet> fleet_of_partition(const World& world, const std::string& partition, bool shares) {
  GPEMU_ASSIGN(const std::vector<QueueNode> nodes, SlurmPrograms(world).nodes(partition));
  std::vector<scheduling::Server> servers;
  for (const QueueNode& node : nodes) {
    if (!node.is_ready || node.gpus == 0 || !node.fault.empty()) continue;
    if (shares && (node.gpus != 1 || node.shards == 0)) {
      return fail(ErrorCode::kUnsupported,
                  "the node {} has {} GPUs and {} shards: where jobs share GPUs, each node has one "
                  "GPU, with shards, because Slurm, not the policy, chooses between them",
                  node.name, node.gpus, node.shards);
    }
    servers.push_back({.name = node.name, .gpu = node.gpu_type, .gpus = node.gpus, .host = {}});
  }
  return Fleet::create(std::move(servers));
}

Result<void> replay_queue(const QueueReplayChoices& options, const World& world) {
  GPEMU_TRY(report::check_outputs({options.tables.per_job}));
  GPEMU_ASSIGN(const scheduling::PolicyEntry* const policy,
               scheduling::find_policy(options.tables.policy));
  GPEMU_TRY(check_scope(policy));
  GPEMU_ASSIGN(const std::filesystem::path folder, existing_folder(options.folder));
  GPEMU_ASSIGN(const Fleet fleet,
               fleet_of_partition(world, options.partition, shares_gpus(*policy)));
  GPEMU_ASSIGN(const ReplayTables tables, read_replay_tables(fleet, options.tables));
  const QueueReplayOptions how{.partition = options.partition,
                               .run = fmt::format("replay-{}", ::getpid()),
                               .folder = folder,
                               .gpemu = world.executable.parent_path() / "gpemu",
                               .speed = options.tables.speed,
                               .shares_gpus = shares_gpus(*policy)};
  const InterruptGuard interrupt;
  GPEMU_ASSIGN(const std::vector<ReplayedJob> replayed,
               replay_in_queue(world, fleet, tables.jobs, how, interrupt.flag(), print_line));
  report::print_out("{}", replay_report(tables.jobs, replayed, tables.simulated,
                                        {.where = "on Slurm", .evictions = "which were requeued"}));
  if (options.tables.per_job.empty()) return {};
  return write_file_atomically(options.tables.per_job,
                               replayed_jobs_table(tables.jobs, replayed, tables.simulated));
}

}  // namespace

void add_policy_commands(Command slurm, const World& world) {
  Command schedule = slurm.subcommand(
      "schedule", "Schedules the jobs of a partition by the policies of `gpemu schedule`");
  const auto for_schedule = std::make_shared<ScheduleChoices>();
  schedule.option("--partition", for_schedule->partition, "Whose jobs; they are submitted held")
      .required();
  add_live_options(schedule, for_schedule->decides);
  schedule.option("--folder", for_schedule->folder,
                  "A folder that all machines see: NUMBER.pace there says how many times as long "
                  "as with GPUs of its own a job takes where the policy runs it; by default, "
                  "nobody is told");
  schedule.notes(
      live_notes("  gpemu-slurm schedule --partition gpu --policy srtf\n"
                 "  sbatch --hold --partition gpu --gres=gpu:1 --comment='{\"seconds\": 3600}' "
                 "train.sh\n"));
  schedule.on_run([for_schedule, &world] { return schedule_queue(*for_schedule, world); });

  Command replay = slurm.subcommand(
      "replay",
      "Submits the jobs of a table when they arrive, and compares what becomes of them with "
      "`gpemu schedule`");
  const auto for_replay = std::make_shared<QueueReplayChoices>();
  replay
      .option("--partition", for_replay->partition, "The partition that `gpemu-slurm schedule` has")
      .required();
  replay.option("--folder", for_replay->folder, "The folder of `gpemu-slurm schedule`").required();
  add_replay_options(replay, for_replay->tables,
                     "Time runs so many times as fast; that of `gpemu-slurm schedule`");
  replay.notes(
      "Example:\n"
      "  gpemu-slurm schedule --partition gpu --policy allox --speed 2 --folder /shared/replay &\n"
      "  gpemu-slurm replay --partition gpu --policy allox --speed 2 --folder /shared/replay "
      "--jobs jobs.csv --speeds speeds.csv\n");
  replay.on_run([for_replay, &world] { return replay_queue(*for_replay, world); });
}

}  // namespace gpemu::tools
