// SPDX-License-Identifier: Apache-2.0
//
// What Slurm needs to give its tasks emulated GPUs, which the plug-in spank_plugin.cpp calls, and
// what lets policies decide about its queue.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/report/terminal.hpp"
#include "gpemu/sim/clock.hpp"

#include "cli/command_tree.hpp"
#include "cli/world.hpp"
#include "slurm/slurm_commands.hpp"

namespace gpemu::tools {
namespace {

int run_slurm_program(std::vector<std::string> words) {
  CommandTree commands("Emulated GPUs for Slurm (docs/how-to/slurm.md)", "gpemu-slurm");
  commands.root().require_subcommand();
  sim::RealClock clock;
  const World world = real_world(clock);
  add_administration_commands(commands.root());
  add_policy_commands(commands.root(), world);
  add_step_commands(commands.root());
  const auto code = commands.run(std::move(words));
  if (code) return *code;
  report::print_error("gpemu-slurm: {}\n", code.error().message);
  return exit_code(code.error().code);
}

}  // namespace
}  // namespace gpemu::tools

int main(int argc, char** argv) {
  return gpemu::tools::run_slurm_program({argv + std::min(argc, 1), argv + argc});
}
