// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "gpemu/containers/gpu_pool.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command.hpp"
#include "cli/device_list.hpp"
#include "cli/interrupt.hpp"
#include "kubernetes/device_plugin.hpp"
#include "kubernetes/kubernetes_commands.hpp"

namespace gpemu::tools {
namespace {

struct DevicePluginChoices {
  std::vector<std::string> gpus;
  std::string machine;
  std::string faults;
  std::string division = "none";
  std::string installation = containers::kInstallation;
  std::string state = "/run/gpemu-device-plugin";
  std::string sockets = "/var/lib/kubelet/device-plugins";
  std::string resource = "nvidia.com/gpu";
  int replicas = 1;
};

std::string host_name() {
  std::array<char, 64> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

void add_options(Command app, DevicePluginChoices& options) {
  app.option("--gpu", options.gpus, "NAME[:COUNT] as in `gpemu profile list`; repeat it")
      .required();
  app.option("--resource", options.resource, "What pods ask for").show_default();
  app.option("--replicas", options.replicas, "So many containers can share a GPU")
      .range(1, 64)
      .show_default();
  app.option("--divide", options.division,
             "What a replica is. none: the GPU, in turns with others; share: a part of its memory "
             "and of its time, and time that others leave; limit: a part, and never more")
      .one_of({"none", "share", "limit"})
      .show_default();
  app.option("--machine", options.machine,
             "The name from which the UUIDs follow; by default the host's");
  app.option("--faults", options.faults,
             "A file of faults (docs/reference/faults-file.md), which containers have, too: a GPU "
             "that is lost is unhealthy; times count from the plugin's start");
  app.option("--installation", options.installation,
             "The folder in which gpemu alone is installed, for containers")
      .show_default();
  app.option("--state", options.state, "The folder of the containers' nodes").show_default();
  app.option("--sockets", options.sockets, "The kubelet's folder of device plugins").show_default();
  app.notes(
      "Examples:\n"
      "  gpemu-kubernetes device-plugin --gpu A100-SXM4-40GB:8\n"
      "  gpemu-kubernetes device-plugin --gpu V100-PCIE-32GB:2 --replicas 4 --divide limit\n");
}

Result<void> run(const DevicePluginChoices& options) {
  GPEMU_ASSIGN(const profile::Database database,
               profile::Database::open(profile::Database::default_paths()));
  containers::GpuPoolOptions pool_options{
      .machine = options.machine.empty() ? host_name() : options.machine,
      .gpus = {},
      .faults = {},
      .slices = {},
      .folder = options.state,
      .installation = options.installation,
      .replicas = options.replicas,
      .division = options.division == "share"   ? containers::Division::kShare
                  : options.division == "limit" ? containers::Division::kLimit
                                                : containers::Division::kNone};
  GPEMU_ASSIGN(pool_options.gpus, read_device_list(database, options.gpus));
  GPEMU_ASSIGN(pool_options.faults, faults_of(options.faults, pool_options.gpus.size()));
  GPEMU_ASSIGN(containers::GpuPool pool, containers::GpuPool::create(std::move(pool_options)));
  const InterruptGuard interrupt;
  return serve_kubelet(
      {.resource = options.resource, .folder = options.sockets}, pool, interrupt.flag(),
      [](const std::string& line) { report::print_error("gpemu-kubernetes: {}\n", line); });
}

}  // namespace

void add_device_plugin_command(Command kubernetes) {
  Command command = kubernetes.subcommand(
      "device-plugin",
      "Offers emulated GPUs to the kubelet of this machine: pods that ask for them run unmodified "
      "CUDA programs");
  const auto options = std::make_shared<DevicePluginChoices>();
  add_options(command, *options);
  command.on_run([options] { return run(*options); });
}

}  // namespace gpemu::tools
