// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/run/shims.hpp"

#include "slurm/gres_text.hpp"
#include "slurm/job_nodes.hpp"
#include "slurm/job_usage.hpp"
#include "slurm/machine_gpus.hpp"
#include "slurm/slurm_commands.hpp"
#include "slurm/slurm_settings.hpp"

namespace gpemu::tools {
namespace {

struct AdministrationOptions {
  std::string conf = kSlurmSettings;
  std::string node, job;
  bool as_json = false;
};

using AdministrationChoices = std::shared_ptr<AdministrationOptions>;

AdministrationChoices administration_choices_of(Command command) {
  const auto options = std::make_shared<AdministrationOptions>();
  command.option("--conf", options->conf, "The description of the cluster's GPUs").show_default();
  return options;
}

Result<void> print_gres(const AdministrationOptions& options) {
  GPEMU_ASSIGN(const SlurmSettings settings, read_slurm_settings(options.conf));
  GPEMU_ASSIGN(const GpuSources sources, GpuSources::open());
  const auto text = gres_conf(settings, sources);
  if (!text) return fail(text.error().code, "{}: {}", options.conf, text.error().message);
  report::print_out("{}", *text);
  return {};
}

Result<void> prepare_machine(const AdministrationOptions& options) {
  GPEMU_ASSIGN(const SlurmSettings settings, read_slurm_settings(options.conf));
  GPEMU_ASSIGN(JobNodes nodes, JobNodes::open(settings, options.node));
  GPEMU_ASSIGN(const std::filesystem::path shims, run::find_shims());
  GPEMU_ASSIGN(const GpuSources sources, GpuSources::open());
  GPEMU_ASSIGN(const run::Environment environment, nodes.prepare(sources, shims));
  for (const auto& [name, value] : environment.set) report::print_out("{}={}\n", name, value);
  return {};
}

Result<void> print_usages(const AdministrationOptions& options) {
  GPEMU_ASSIGN(const SlurmSettings settings, read_slurm_settings(options.conf));
  GPEMU_ASSIGN(const std::vector<JobUsage> usages, read_usages(settings.usage, options.job));
  if (options.as_json) {
    report::print_out("{}", report::json_text(usages_json(usages)));
  } else {
    report::print_out("{}", usage_table(usages));
  }
  return {};
}

}  // namespace

void add_administration_commands(Command slurm) {
  Command gres =
      slurm.subcommand("gres", "Prints gres.conf and, as comments, what slurm.conf needs");
  const AdministrationChoices for_gres = administration_choices_of(gres);
  gres.on_run([for_gres] { return print_gres(*for_gres); });

  Command prepare = slurm.subcommand(
      "prepare",
      "Makes the device files that gres.conf names, before slurmd starts, and prints the variables "
      "with which Slurm's NVML plug-in finds the GPUs");
  const AdministrationChoices for_prepare = administration_choices_of(prepare);
  prepare.option("--node", for_prepare->node, "Slurm's name of this machine").required();
  prepare.on_run([for_prepare] { return prepare_machine(*for_prepare); });

  Command report = slurm.subcommand("report", "Shows what jobs that have ended used of GPUs");
  const AdministrationChoices for_report = administration_choices_of(report);
  report.option("--job", for_report->job, "Only this job");
  report.flag("--json", for_report->as_json, "Print JSON");
  report.on_run([for_report] { return print_usages(*for_report); });
}

}  // namespace gpemu::tools
