// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "gpemu/containers/gpu_pool.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "kubernetes/device_plugin.hpp"
#include "kubernetes/kubernetes_commands.hpp"
#include "kubernetes/pool_options.hpp"

namespace gpemu::tools {
namespace {

struct DevicePluginChoices {
  PoolOptions gpus{.gpus = {}, .machine = {}, .faults = {}, .state = "/run/gpemu-device-plugin"};
  std::string division = "none";
  std::string sockets = "/var/lib/kubelet/device-plugins";
  std::string resource = "nvidia.com/gpu";
  int replicas = 1;
};

void add_options(Command app, DevicePluginChoices& options) {
  add_pool_options(app, options.gpus);
  add_fault_option(app, options.gpus);
  app.option("--resource", options.resource, "What pods ask for").show_default();
  app.option("--replicas", options.replicas, "So many containers can share a GPU")
      .range(1, 64)
      .show_default();
  app.option("--divide", options.division,
             "What a replica is. none: the GPU, in turns with others; share: a part of its memory "
             "and of its time, and time that others leave; limit: a part, and never more")
      .one_of({"none", "share", "limit"})
      .show_default();
  app.option("--sockets", options.sockets, "The kubelet's folder of device plugins").show_default();
  app.notes(
      "Examples:\n"
      "  gpemu-kubernetes device-plugin --gpu A100-SXM4-40GB:8\n"
      "  gpemu-kubernetes device-plugin --gpu V100-PCIE-32GB:2 --replicas 4 --divide limit\n");
}

Result<void> run(const DevicePluginChoices& options) {
  GPEMU_ASSIGN(containers::GpuPoolOptions pool_options, read_pool_options(options.gpus));
  pool_options.replicas = options.replicas;
  pool_options.division = division_of(options.division);
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
