// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  PoolOptions gpus{
      .gpus = {}, .topology = {}, .machine = {}, .faults = {}, .state = "/run/gpemu-device-plugin"};
  std::string division = "none";
  std::string sockets = "/var/lib/kubelet/device-plugins";
  std::string resource = "nvidia.com/gpu";
  std::vector<std::string> mig;
  std::string node, kubeconfig;
  int replicas = 1;
};

void add_options(Command app, DevicePluginChoices& options) {
  add_pool_options(app, options.gpus);
  add_fault_option(app, options.gpus);
  app.option("--resource", options.resource, "What pods ask for").show_default();
  app.option("--mig", options.mig,
             "MIG divides each GPU into these instances, which are offered as "
             "nvidia.com/mig-PROFILE; with --resource, as that")
      .separated_by(',')
      .placeholder("PROFILE[:COUNT]");
  app.option("--replicas", options.replicas, "So many containers can share a GPU")
      .range(1, 64)
      .show_default();
  app.option("--divide", options.division,
             "What a replica is. none: the GPU, in turns with others; share: a part of its memory "
             "and of its time, and time that others leave; limit: a part, and never more")
      .one_of({"none", "share", "limit"})
      .show_default();
  app.option("--sockets", options.sockets, "The kubelet's folder of device plugins").show_default();
  app.option("--node", options.node,
             "The name of the Kubernetes node, which then gets events for Xids of its GPUs");
  app.option("--kubeconfig", options.kubeconfig,
             "How the API server is reached for them; by default as kubectl and pods find it")
      .needs("--node");
  app.notes(
      "Examples:\n"
      "  gpemu-kubernetes device-plugin --gpu A100-SXM4-40GB:8\n"
      "  gpemu-kubernetes device-plugin --topology dgx-1v\n"
      "  gpemu-kubernetes device-plugin --gpu V100-PCIE-32GB:2 --replicas 4 --divide limit\n"
      "  gpemu-kubernetes device-plugin --gpu A100-SXM4-40GB:8 --mig 3g.20gb,2g.10gb:2\n"
      "  gpemu-kubernetes device-plugin --gpu A100-SXM4-40GB:8 --mig 1g.5gb:7 --resource "
      "nvidia.com/gpu\n");
}

/// Returns an error unless all MIG devices may have one name.
Result<void> check_alike(const std::vector<std::string>& mig) {
  const auto other = std::ranges::find_if(mig, [&](const auto& name) { return name != mig[0]; });
  if (other == mig.end()) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      "--resource gives {} and {} one name, and pods could not say which they want: leave it "
      "out, or divide the GPUs into instances of one profile",
      mig[0], *other);
}

Result<void> run(const DevicePluginChoices& options, bool names_resource) {
  GPEMU_ASSIGN(containers::GpuPoolOptions pool_options, read_pool_options(options.gpus));
  pool_options.replicas = options.replicas;
  pool_options.division = division_of(options.division);
  GPEMU_ASSIGN(pool_options.mig, read_mig_profiles(options.mig));
  if (names_resource) GPEMU_TRY(check_alike(pool_options.mig));
  GPEMU_ASSIGN(containers::GpuPool pool, containers::GpuPool::create(std::move(pool_options)));
  std::optional<XidEvents> xids;
  if (!options.node.empty()) {
    GPEMU_ASSIGN(const ApiAccess access, find_api_server(options.kubeconfig));
    GPEMU_ASSIGN(ApiServer server, ApiServer::create(access));
    xids.emplace(std::move(server), options.node);
  }
  const InterruptGuard interrupt;
  return serve_kubelet(
      {.resource = options.resource, .is_mixed = !names_resource, .folder = options.sockets}, pool,
      xids ? &*xids : nullptr, interrupt.flag(),
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
  command.on_run([options, command] { return run(*options, command.given("--resource")); });
}

}  // namespace gpemu::tools
