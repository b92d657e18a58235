// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gpemu/report/terminal.hpp"
#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/placement.hpp"
#include "gpemu/scheduling/registry.hpp"

#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "kubernetes/kubernetes_commands.hpp"
#include "kubernetes/scheduler.hpp"

namespace gpemu::tools {
namespace {

struct SchedulerChoices {
  std::filesystem::path kubeconfig;
  std::string policy, placement;
  std::filesystem::path expected;
  std::string name = "gpemu-scheduler";
  std::optional<double> round_s;
  double speed = 1;
  std::string lease_namespace = "kube-system";
  double lease_s = 15;
  int connections = 8;
};

std::string own_identity() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}_{}", host.data(), ::getpid());
}

Result<PodSchedulerSettings> settings_of(const SchedulerChoices& options) {
  PodSchedulerSettings settings{
      .name = options.name, .expected = {}, .round_s = options.round_s, .speed = options.speed};
  if (options.policy.empty() == options.placement.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "who decides? Give --policy NAME, or --place NAME; --help lists both");
  }
  if (!options.policy.empty()) {
    GPEMU_ASSIGN(settings.policy, scheduling::find_policy(options.policy));
    if (auto has_effect =
            scheduling::check_settings(std::array{settings.policy}, {.round_s = options.round_s});
        !has_effect) {
      return fail(has_effect.error().code, "--round: {}", has_effect.error().message);
    }
    return settings;
  }
  GPEMU_ASSIGN(settings.placement, scheduling::find_placement(options.placement));
  if (options.expected.empty()) return settings;
  GPEMU_ASSIGN(settings.expected, scheduling::read_jobs(options.expected, {.timeless = true}));
  return settings;
}

Result<void> run(const SchedulerChoices& options) {
  SchedulerOptions serve;
  GPEMU_ASSIGN(serve.settings, settings_of(options));
  serve.election = {.name_space = options.lease_namespace,
                    .name = options.name,
                    .identity = own_identity(),
                    .lease_s = options.lease_s};
  serve.connections = static_cast<std::size_t>(options.connections);
  GPEMU_ASSIGN(const ApiAccess access, find_api_server(options.kubeconfig));
  const InterruptGuard interrupt;
  return serve_scheduler(access, serve, interrupt.flag(), [](const std::string& line) {
    report::print_error("gpemu-kubernetes: {}\n", line);
  });
}

std::string notes() {
  std::string text = "Policies:\n";
  for (const scheduling::PolicyEntry& policy : scheduling::policies()) {
    text += fmt::format("  {:<18}{}\n", policy.name, policy.meaning);
  }
  text += "\nPlacements:\n";
  for (const scheduling::PlacementEntry& placement : scheduling::placements()) {
    text += fmt::format("  {:<18}{}\n", placement.name, placement.meaning);
  }
  return text +
         "\nExamples:\n"
         "  gpemu-kubernetes scheduler --policy las-synergy\n"
         "  gpemu-kubernetes scheduler --place fgd --expect trace.csv\n";
}

}  // namespace

void add_scheduler_command(Command kubernetes) {
  Command command = kubernetes.subcommand(
      "scheduler",
      "Schedules pods by the policies of `gpemu schedule` and the placements of `gpemu place`");
  const auto options = std::make_shared<SchedulerChoices>();
  command.option("--kubeconfig", options->kubeconfig,
                 "How to reach the API server; by default as kubectl does, or a pod's account");
  command.option("--policy", options->policy, "Which jobs get which GPUs");
  command
      .option("--place", options->placement,
              "In place of a policy: jobs start in the order of arrival where this puts them")
      .excludes("--policy");
  command
      .option("--expect", options->expected,
              "A table of jobs like those that are expected to come, for --place; by default, "
              "those that have come")
      .needs("--place");
  command.option("--name", options->name, "Pods name it as their schedulerName").show_default();
  command.option("--round", options->round_s, "The length of rounds, in seconds").positive();
  command.option("--speed", options->speed, "Time runs so many times as fast, as on hollow nodes")
      .positive()
      .show_default();
  command
      .option("--lease-namespace", options->lease_namespace,
              "Where the Lease is by which one instance leads; its name is --name")
      .show_default();
  command
      .option("--lease", options->lease_s,
              "How many seconds another instance waits before it takes over")
      .positive()
      .show_default();
  command.option("--connections", options->connections, "How many bindings at once")
      .range(1, 64)
      .show_default();
  command.notes(notes());
  command.on_run([options] { return run(*options); });
}

}  // namespace gpemu::tools
