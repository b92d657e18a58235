// SPDX-License-Identifier: Apache-2.0
//
// The commands that the plug-in calls.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gpemu/report/terminal.hpp"
#include "gpemu/run/shims.hpp"

#include "cli/device_list.hpp"
#include "slurm/job_nodes.hpp"
#include "slurm/machine_gpus.hpp"
#include "slurm/slurm_commands.hpp"
#include "slurm/slurm_settings.hpp"

namespace gpemu::tools {
namespace {

struct StepOptions {
  std::string conf = kSlurmSettings;
  std::string node;
  StepRequest request;
  int user = 0, group = 0, process = 0;
  std::string hosts;
};

using StepChoices = std::shared_ptr<StepOptions>;

StepChoices step_choices_of(Command command) {
  const auto options = std::make_shared<StepOptions>();
  command.option("--conf", options->conf, "The description of the cluster's GPUs").show_default();
  return options;
}

/// Adds the options that say whose GPUs they are.
StepChoices holder_choices_of(Command command) {
  StepChoices options = step_choices_of(command);
  command.option("--node", options->node, "Slurm's name of this machine").required();
  command.option("--job", options->request.job, "The job's number").required();
  return options;
}

Result<void> check_gpu(const StepOptions& options) {
  const std::string& gpu = options.request.own_gpus;
  GPEMU_ASSIGN(const GpuSources sources, GpuSources::open());
  const auto devices = read_device_list(sources.database, {gpu});
  if (devices) return {};
  return fail(devices.error().code, "--gpemu-gpu: {}", devices.error().message);
}

Result<void> give_gpus(StepOptions options) {
  options.request.user = static_cast<uid_t>(options.user);
  options.request.group = static_cast<gid_t>(options.group);
  options.request.process = options.process;
  if (!options.hosts.empty()) {
    GPEMU_ASSIGN(options.request.hosts, names_of_hostlist(options.hosts));
  }
  GPEMU_ASSIGN(const SlurmSettings settings, read_slurm_settings(options.conf));
  GPEMU_ASSIGN(JobNodes nodes, JobNodes::open(settings, options.node));
  GPEMU_ASSIGN(const std::filesystem::path shims, run::find_shims());
  GPEMU_ASSIGN(const GpuSources sources, GpuSources::open());
  GPEMU_ASSIGN(const StepGpus step, nodes.give(options.request, sources, shims));
  for (const auto& [name, value] : step.environment.set) {
    report::print_out("set {}={}\n", name, value);
  }
  for (const std::string& name : step.environment.unset) {
    const auto is_set = [&](const auto& entry) { return entry.first == name; };
    if (std::ranges::any_of(step.environment.set, is_set)) continue;
    report::print_out("unset {}\n", name);
  }
  report::print_out("path {}\n", step.environment.programs);
  for (const std::string& name : step.visible) report::print_out("visible {}\n", name);
  return {};
}

Result<void> take_gpus_back(const StepOptions& options) {
  GPEMU_ASSIGN(const SlurmSettings settings, read_slurm_settings(options.conf));
  GPEMU_ASSIGN(JobNodes nodes, JobNodes::open(settings, options.node));
  return nodes.take_back(options.request.job);
}

Result<void> clean_machine(const StepOptions& options) {
  GPEMU_ASSIGN(const SlurmSettings settings, read_slurm_settings(options.conf));
  GPEMU_ASSIGN(JobNodes nodes, JobNodes::open(settings, options.node));
  return nodes.clean();
}

}  // namespace

void add_step_commands(Command slurm) {
  Command check = slurm.subcommand("check", "Says whether --gpemu-gpu names GPUs");
  const StepChoices for_check = step_choices_of(check);
  check.option("--gpu", for_check->request.own_gpus, "NAME[:COUNT]").required();
  check.on_run([for_check] { return check_gpu(*for_check); });

  Command give = slurm.subcommand("give", "Gives a step its GPUs; the plug-in calls it");
  const StepChoices for_give = holder_choices_of(give);
  give.option("--step", for_give->request.step, "The step's number or name").required();
  give.option("--process", for_give->process, "A process that lives as long as the step")
      .required();
  give.option("--user", for_give->user, "The number of the job's user").required();
  give.option("--group", for_give->group, "The number of the job's group").required();
  give.option("--gpus", for_give->request.gpus, "Slurm's numbers of the GPUs").separated_by(',');
  give.option("--shards", for_give->request.shards, "Shards of the GPU").positive();
  give.flag("--mps", for_give->request.mps, "The step has a percentage of the GPU");
  give.option("--gpu", for_give->request.own_gpus, "NAME[:COUNT] that Slurm knows nothing of");
  give.option("--hosts", for_give->hosts, "All nodes of the job");
  give.flag("--network-is-set", for_give->request.network_is_set,
            "The job has a variable with the network that joins them");
  give.on_run([for_give] { return give_gpus(*for_give); });

  Command take_back =
      slurm.subcommand("take-back", "Removes what a job has on this machine; the plug-in calls it");
  const StepChoices for_take_back = holder_choices_of(take_back);
  take_back.on_run([for_take_back] { return take_gpus_back(*for_take_back); });

  Command clean = slurm.subcommand(
      "clean", "Removes what jobs have left of which nothing runs; the plug-in calls it");
  const StepChoices for_clean = step_choices_of(clean);
  clean.option("--node", for_clean->node, "Slurm's name of this machine").required();
  clean.on_run([for_clean] { return clean_machine(*for_clean); });
}

}  // namespace gpemu::tools
