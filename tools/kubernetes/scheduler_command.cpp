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

#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "kubernetes/kubernetes_commands.hpp"
#include "kubernetes/scheduler.hpp"
#include "live/live_options.hpp"

namespace gpemu::tools {
namespace {

struct SchedulerChoices {
  std::filesystem::path kubeconfig;
  LiveScheduleOptions decides;
  std::string name = "gpemu-scheduler";
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
  PodSchedulerSettings settings{.name = options.name, .decides = {}};
  GPEMU_ASSIGN(settings.decides, live_settings_of(options.decides));
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

}  // namespace

void add_scheduler_command(Command kubernetes) {
  Command command = kubernetes.subcommand(
      "scheduler",
      "Schedules pods by the policies of `gpemu schedule` and the placements of `gpemu place`");
  const auto options = std::make_shared<SchedulerChoices>();
  command.option("--kubeconfig", options->kubeconfig,
                 "How to reach the API server; by default as kubectl does, or a pod's account");
  add_live_options(command, options->decides);
  command.option("--name", options->name, "Pods name it as their schedulerName").show_default();
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
  command.notes(
      live_notes("  gpemu-kubernetes scheduler --policy las-synergy\n"
                 "  gpemu-kubernetes scheduler --place fgd --expect trace.csv\n"));
  command.on_run([options] { return run(*options); });
}

}  // namespace gpemu::tools
