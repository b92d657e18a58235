// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/scheduling/fleet_table.hpp"

#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "kubernetes/kubernetes_commands.hpp"
#include "kubernetes/replay.hpp"
#include "live/live_schedule.hpp"
#include "live/replay_report.hpp"
#include "live/replay_tables.hpp"

namespace gpemu::tools {
namespace {

using scheduling::Fleet;

struct ReplayChoices {
  ReplayTableOptions tables;
  std::filesystem::path kubeconfig, fleet;
  std::uint64_t servers = 0, gpus = 8;
  std::string scheduler = "gpemu-scheduler", image, resource = kGpuResource;
};

Result<Fleet> fleet_of(const ReplayChoices& options) {
  if (!options.fleet.empty()) {
    GPEMU_ASSIGN(const Fleet fleet, scheduling::read_fleet(options.fleet));
    // As the scheduler has its nodes: policies look at the first ones first.
    std::vector<scheduling::Server> servers = fleet.servers();
    std::ranges::sort(servers, {}, &scheduling::Server::name);
    return Fleet::create(std::move(servers));
  }
  if (options.servers != 0) return Fleet::uniform(options.servers, options.gpus);
  return fail(ErrorCode::kInvalidArgument,
              "which nodes does the cluster have? Give --servers COUNT, or --fleet FILE");
}

bool has_one_each(const Fleet& fleet) {
  return std::ranges::all_of(fleet.servers(), [](const auto& server) { return server.gpus == 1; });
}

/// Returns an error if pods would not have the GPUs that the policy gives them.
Result<void> check_resource(const ReplayChoices& options, bool shares, const Fleet& fleet) {
  if (options.image.empty()) return {};
  if (shares && options.resource == kGpuResource) {
    return fail(ErrorCode::kInvalidArgument,
                "with --policy {} jobs share GPUs: name what the device plugin offers with "
                "--replicas, as --resource {}",
                options.tables.policy, kSharedGpuResource);
  }
  if (options.resource == kGpuResource || has_one_each(fleet)) return {};
  return fail(ErrorCode::kUnsupported,
              "with --resource {}, each node may have one GPU: kubelets, not the policy, choose "
              "between GPUs that are shared",
              options.resource);
}

Result<void> run(const ReplayChoices& options) {
  GPEMU_TRY(report::check_outputs({options.tables.per_job}));
  GPEMU_ASSIGN(const Fleet fleet, fleet_of(options));
  GPEMU_ASSIGN(const ReplayTables tables, read_replay_tables(fleet, options.tables));
  GPEMU_ASSIGN(const ApiAccess access, find_api_server(options.kubeconfig));
  const bool shares = shares_gpus(*tables.policy);
  const ReplayOptions how{.scheduler = options.scheduler,
                          .name_space = access.name_space,
                          .run = fmt::format("replay-{}", ::getpid()),
                          .speed = options.tables.speed,
                          .shares_gpus = shares,
                          .image = options.image,
                          .resource = options.resource};
  GPEMU_TRY(check_resource(options, shares, fleet));
  const InterruptGuard interrupt;
  GPEMU_ASSIGN(const std::vector<ReplayedJob> replayed,
               replay(access, fleet, tables.jobs, how, interrupt.flag(), [](std::size_t) {}));
  report::print_out("{}",
                    replay_report(tables.jobs, replayed, tables.simulated,
                                  {.where = "in pods", .evictions = "whose pods were evicted"}));
  if (options.tables.per_job.empty()) return {};
  return write_file_atomically(options.tables.per_job,
                               replayed_jobs_table(tables.jobs, replayed, tables.simulated));
}

}  // namespace

void add_replay_command(Command kubernetes) {
  Command command = kubernetes.subcommand(
      "replay",
      "Makes the jobs of a table as pods when they arrive, and compares what becomes of them with "
      "`gpemu schedule`");
  const auto options = std::make_shared<ReplayChoices>();
  command.option("--kubeconfig", options->kubeconfig,
                 "How to reach the API server; by default as kubectl does, or a pod's account");
  add_replay_options(command, options->tables,
                     "Time runs so many times as fast; that of the scheduler and the hollow nodes");
  command.option("--servers", options->servers, "How many nodes the cluster has");
  command.option("--gpus", options->gpus, "How many GPUs each of them has").show_default();
  command.option("--fleet", options->fleet, "A table of the nodes").excludes("--servers");
  command.option("--scheduler", options->scheduler, "The pods' schedulerName").show_default();
  command.option("--image", options->image,
                 "For nodes with kubelets and gpemu's device plugin: the pods have this image, and "
                 "run their jobs on emulated GPUs by `gpemu jobs run`. By default, they are for "
                 "hollow nodes");
  command
      .option("--resource", options->resource,
              "What those pods ask for, such as nvidia.com/gpu.shared")
      .needs("--image")
      .show_default();
  command.notes(
      "Example:\n"
      "  gpemu-kubernetes hollow-nodes --fleet servers.csv --speed 10 &\n"
      "  gpemu-kubernetes scheduler --policy allox --speed 10 &\n"
      "  gpemu-kubernetes replay --jobs jobs.csv --fleet servers.csv --speeds speeds.csv --policy "
      "allox --speed 10\n");
  command.on_run([options] { return run(*options); });
}

}  // namespace gpemu::tools
