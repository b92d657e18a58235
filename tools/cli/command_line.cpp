// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/text.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command_tree.hpp"

namespace gpemu::tools {
namespace {

int report(const Error& error) {
  report::print_error("gpemu: {}\n", printable_message(error.message));
  return exit_code(error.code);
}

int run(int argc, char** argv, const World& world) {
  // Its options are not in the form of gpemu's.
  if (argc > 1 && std::string_view(argv[1]) == "nvidia-smi") {
    const std::vector<std::string> words(argv + 2, argv + argc);
    return run_nvidia_smi(words, world);
  }
  CommandTree commands("gpemu emulates GPUs for work on deep-learning systems", "gpemu",
                       world.terminal().columns);
  add_commands(commands.root(), world);
  const Result<int> code = commands.run({argv + std::min(argc, 1), argv + argc});
  return code ? *code : report(code.error());
}

}  // namespace

void add_commands(Command app, const World& world) {
  app.require_subcommand();
  app.notes(
      "Examples:\n"
      "  gpemu data make photos\n"
      "  gpemu train --gpu V100-PCIE-32GB --model resnet18 --data photos\n"
      "  gpemu run --gpu A100-SXM4-40GB -- python train.py\n"
      "  gpemu help train");
  add_analyze_command(app, world);
  add_cluster_command(app, world);
  add_completion_command(app, world);
  add_cost_command(app, world);
  add_data_command(app, world);
  add_experiment_command(app, world);
  add_help_command(app);
  add_host_command(app, world);
  add_mig_command(app, world);
  add_node_command(app, world);
  add_nvidia_smi_command(app);
  add_predict_command(app, world);
  add_profile_command(app, world);
  add_run_command(app, world);
  add_smi_command(app, world);
  add_train_command(app, world);
  add_version_command(app);
}

int run_command_line(int argc, char** argv, const World& world) {
  report::fill_standard_descriptors();
  int code = 0;
  try {
    code = run(argc, argv, world);
  } catch (const std::exception& error) {
    code = report({ErrorCode::kInternal, fmt::format("internal error: {}", error.what())});
  }
  // A reported fault takes precedence over output that it cut short.
  const Result<void> written = report::finish_output();
  return code == 0 && !written ? report(written.error()) : code;
}

}  // namespace gpemu::tools
