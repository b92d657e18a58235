// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "gpemu/base/error.hpp"

namespace CLI {
class App;  // Its header takes the compiler seconds.
}

namespace gpemu::tools {

/// Sets the action of a subcommand, which runs after its options were parsed. An error that it
/// returns is printed and decides the exit code.
void set_action(CLI::App& command, std::function<Result<void>()> action);

/// Runs the command with the arguments of main(), flushes its output, and returns its exit code.
[[nodiscard]] int run_command_line(int argc, char** argv);

/// Adds all subcommands to the command.
void add_commands(CLI::App& app);

/// One function per subcommand. It adds the subcommand, with its options and examples.
void add_analyze_command(CLI::App& app);
void add_completion_command(CLI::App& app);
void add_cost_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_help_command(CLI::App& app);
void add_node_command(CLI::App& app);
void add_predict_command(CLI::App& app);
void add_profile_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_smi_command(CLI::App& app);
void add_train_command(CLI::App& app);
void add_version_command(CLI::App& app);

}  // namespace gpemu::tools
