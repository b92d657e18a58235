// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "cli/command.hpp"
#include "cli/world.hpp"

namespace gpemu::tools {

/// Runs the command with the arguments of main(), flushes its output, and returns its exit code.
[[nodiscard]] int run_command_line(int argc, char** argv, const World& world);

/// Adds all subcommands to the command. They keep `world`.
void add_commands(Command app, const World& world);

/// One function per subcommand. It adds the subcommand, with its options and examples.
void add_analyze_command(Command app, const World& world);
void add_cluster_command(Command app, const World& world);
/// `gpemu cluster run`, which has the options of `gpemu run`.
void add_cluster_run_command(Command cluster, const World& world);
void add_completion_command(Command app, const World& world);
void add_cost_command(Command app, const World& world);
void add_data_command(Command app, const World& world);
void add_experiment_command(Command app, const World& world);
void add_help_command(Command app, const World& world);
void add_host_command(Command app, const World& world);
void add_jobs_command(Command app, const World& world);
void add_mig_command(Command app, const World& world);
void add_node_command(Command app, const World& world);
/// Shows `gpemu nvidia-smi` in the help; run_nvidia_smi() does it.
void add_nvidia_smi_command(Command app, const World& world);
void add_place_command(Command app, const World& world);
void add_predict_command(Command app, const World& world);
void add_profile_command(Command app, const World& world);
void add_run_command(Command app, const World& world);
void add_schedule_command(Command app, const World& world);
void add_smi_command(Command app, const World& world);
void add_sweep_command(Command app, const World& world);
void add_train_command(Command app, const World& world);
void add_version_command(Command app, const World& world);

/// Does what the program nvidia-smi does with these words, for the GPUs that NVML shows in the same
/// surroundings: those of the node that GPEMU_NODE names, or of the only one. Returns its exit
/// code.
[[nodiscard]] int run_nvidia_smi(std::span<const std::string> words, const World& world);

}  // namespace gpemu::tools
