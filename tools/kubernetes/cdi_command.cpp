// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/variables.hpp"
#include "gpemu/containers/cdi_spec.hpp"
#include "gpemu/containers/gpu_pool.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command.hpp"
#include "kubernetes/kubernetes_commands.hpp"
#include "kubernetes/pool_options.hpp"

namespace gpemu::tools {
namespace {

struct CdiChoices {
  PoolOptions gpus{
      .gpus = {}, .topology = {}, .machine = {}, .faults = {}, .state = "/run/gpemu-cdi"};
  std::string kind = "nvidia.com/gpu";
  std::string output = std::string(containers::kCdiFolder) + "/gpemu.json";
};

/// The variables that say which devices a container has, one each: runtimes let the last value of
/// a variable count.
constexpr const char* kMark = "GPEMU_CDI_";

/// Returns a command that fails for a container with several of these devices: it would have the
/// last one only.
containers::CdiHook one_device_only(const std::string& kind) {
  const std::string script = fmt::format(
      R"sh(bundle=$(sed -n 's/.*"bundle" *: *"\([^"]*\)".*/\1/p')
count=$(grep -o '"{}[^"=]*=' "$bundle/config.json" | sort -u | wc -l)
[ "$count" -le 1 ] && exit
echo "gpemu: a container can have one device of {}, or all: {}=all" >&2
exit 1)sh",
      kMark, kind, kind);
  return {.words = {"/bin/sh", "-c", script}};
}

/// Returns the device with one GPU of the machine's node, or with all of it.
containers::CdiDevice device_of(std::string name, containers::ContainerEdits edits,
                                const containers::PoolDevice* gpu) {
  edits.environment.emplace_back(kMark + (gpu == nullptr ? "all" : std::to_string(gpu->gpu)), "1");
  if (gpu != nullptr) {
    std::erase_if(edits.environment,
                  [](const auto& entry) { return entry.first == "NVIDIA_VISIBLE_DEVICES"; });
    edits.environment.emplace_back("NVIDIA_VISIBLE_DEVICES", gpu->id);
    edits.environment.emplace_back(variable::kDevices, std::to_string(gpu->gpu));
  }
  return {.name = std::move(name), .edits = std::move(edits)};
}

Result<void> run(const CdiChoices& options) {
  if (options.kind.find('/') == std::string::npos) {
    return fail(ErrorCode::kInvalidArgument, "--kind {}: expected VENDOR/CLASS", options.kind);
  }
  GPEMU_ASSIGN(containers::GpuPoolOptions pool_options, read_pool_options(options.gpus));
  GPEMU_ASSIGN(containers::GpuPool pool, containers::GpuPool::create(std::move(pool_options)));
  std::vector<containers::GpuPart> all;
  for (const containers::PoolDevice& gpu : pool.devices()) all.push_back({.gpu = gpu.gpu});
  GPEMU_ASSIGN(const containers::ContainerEdits edits, pool.give("cdi", all));
  std::vector<containers::CdiDevice> devices;
  for (const containers::PoolDevice& gpu : pool.devices()) {
    devices.push_back(device_of(std::to_string(gpu.gpu), edits, &gpu));
    devices.push_back(device_of(gpu.id, edits, &gpu));
  }
  devices.push_back(device_of("all", edits, nullptr));
  const std::vector<containers::CdiHook> hooks = {one_device_only(options.kind)};
  GPEMU_TRY(containers::write_cdi_spec(options.output, options.kind, devices, hooks));
  report::print_out("{}: {} GPUs, as {}=0 to {}, by UUID, and {}=all\n", options.output,
                    pool.devices().size(), options.kind, pool.devices().size() - 1, options.kind);
  return {};
}

}  // namespace

void add_cdi_command(Command kubernetes) {
  Command command = kubernetes.subcommand(
      "cdi",
      "Writes a specification of the Container Device Interface, by which podman, docker and "
      "containerd give emulated GPUs to containers");
  const auto options = std::make_shared<CdiChoices>();
  add_pool_options(command, options->gpus);
  command.option("--kind", options->kind, "What containers ask for, VENDOR/CLASS").show_default();
  command.option("--output", options->output, "The file").show_default();
  command.notes(
      "Examples:\n"
      "  gpemu-kubernetes cdi --gpu A100-SXM4-40GB:8\n"
      "  podman run --device nvidia.com/gpu=0 my-image python3 train.py\n");
  command.on_run([options] { return run(*options); });
}

}  // namespace gpemu::tools
