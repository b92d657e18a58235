// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "gpemu/report/terminal.hpp"

#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "kubernetes/dra_driver.hpp"
#include "kubernetes/kubernetes_commands.hpp"
#include "kubernetes/pool_options.hpp"

namespace gpemu::tools {
namespace {

struct DraDriverChoices {
  PoolOptions gpus{
      .gpus = {}, .topology = {}, .machine = {}, .faults = {}, .state = "/run/gpemu-dra-driver"};
  DraDriverOptions driver;
  std::string division = "none";
  std::string kubeconfig;
  bool mig = false;
};

void add_options(Command app, DraDriverChoices& options) {
  add_pool_options(app, options.gpus);
  add_fault_option(app, options.gpus);
  app.option("--taint", options.driver.slice.taint_effect,
             "The effect of the taint of a GPU that is lost; NoExecute ends its pods, too")
      .one_of({"NoSchedule", "NoExecute"})
      .show_default();
  app.option("--divide", options.division,
             "Whether claims can ask for a capacity of memory and of cores, which are percent of "
             "the time. none: they get whole GPUs; share: time that others leave, too; limit: "
             "never more")
      .one_of({"none", "share", "limit"})
      .show_default();
  app.flag("--mig", options.mig,
           "Claims can ask for instances of MIG, which are made for them, and for whole GPUs "
           "(needs the feature gate DRAPartitionableDevices)");
  app.option("--driver", options.driver.slice.driver,
             "The driver's name: NVIDIA's device classes and selectors know this one")
      .show_default();
  app.option("--node", options.driver.slice.node,
             "The name of the Kubernetes node; by default the host's");
  app.option("--kubeconfig", options.kubeconfig,
             "How the API server is reached; by default as kubectl and pods find it");
  app.option("--kubelet", options.driver.kubelet, "The kubelet's folder").show_default();
  app.option("--cdi", options.driver.cdi, "The folder of CDI specifications").show_default();
  app.notes(
      "Examples:\n"
      "  gpemu-kubernetes dra-driver --gpu A100-SXM4-40GB:8\n"
      "  gpemu-kubernetes dra-driver --gpu H100-SXM5-80GB:8 --divide limit --node $NODE_NAME\n"
      "  gpemu-kubernetes dra-driver --gpu H100-SXM5-80GB:8 --mig\n"
      "  gpemu-kubernetes dra-driver --topology dgx-h100\n");
}

Result<void> use_mig(DraDriverOptions& driver, const containers::GpuPoolOptions& pool) {
  if (driver.slice.divided) {
    return fail(ErrorCode::kUnsupported,
                "--mig and --divide: a GPU is divided by one of them; leave one out");
  }
  if (pool.mig_profiles.empty()) {
    return fail(ErrorCode::kUnsupported,
                "--mig: the GPUs must be of one kind that has MIG, such as A100-SXM4-40GB");
  }
  driver.slice.mig = pool.mig_profiles;
  return {};
}

Result<void> run(DraDriverChoices& options) {
  if (options.driver.slice.node.empty()) options.driver.slice.node = host_name();
  options.driver.division = division_of(options.division);
  options.driver.slice.divided = options.driver.division != containers::Division::kNone;
  GPEMU_ASSIGN(const ApiAccess access, find_api_server(options.kubeconfig));
  GPEMU_ASSIGN(containers::GpuPoolOptions pool_options, read_pool_options(options.gpus));
  options.driver.slice.topology = pool_options.topology;
  if (options.mig) GPEMU_TRY(use_mig(options.driver, pool_options));
  GPEMU_ASSIGN(containers::GpuPool pool, containers::GpuPool::create(std::move(pool_options)));
  const InterruptGuard interrupt;
  return serve_claims(options.driver, access, pool, interrupt.flag(), [](const std::string& line) {
    report::print_error("gpemu-kubernetes: {}\n", line);
  });
}

}  // namespace

void add_dra_driver_command(Command kubernetes) {
  Command command = kubernetes.subcommand(
      "dra-driver",
      "Offers emulated GPUs of this machine by dynamic resource allocation: pods claim them by "
      "their attributes, and share them");
  const auto options = std::make_shared<DraDriverChoices>();
  add_options(command, *options);
  command.on_run([options] { return run(*options); });
}

}  // namespace gpemu::tools
