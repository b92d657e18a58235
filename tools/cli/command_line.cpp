// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/text.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command_tree.hpp"
#include "cli/former_words.hpp"

namespace gpemu::tools {
namespace {

int report(const Error& error) {
  report::print_error("gpemu: {}\n", printable_message(error.message));
  return exit_code(error.code);
}

struct Subcommand {
  std::string_view name;
  void (*add)(Command app, const World& world);
};

constexpr auto kSubcommands = std::to_array<Subcommand>({
    {"analyze", add_analyze_command},
    {"cluster", add_cluster_command},
    {"completion", add_completion_command},
    {"cost", add_cost_command},
    {"data", add_data_command},
    {"experiment", add_experiment_command},
    {"help", add_help_command},
    {"host", add_host_command},
    {"jobs", add_jobs_command},
    {"mig", add_mig_command},
    {"node", add_node_command},
    {"nvidia-smi", add_nvidia_smi_command},
    {"place", add_place_command},
    {"predict", add_predict_command},
    {"profile", add_profile_command},
    {"run", add_run_command},
    {"schedule", add_schedule_command},
    {"smi", add_smi_command},
    {"sweep", add_sweep_command},
    {"train", add_train_command},
    {"version", add_version_command},
});

void add_notes(Command app) {
  app.require_subcommand();
  app.notes(
      "Examples:\n"
      "  gpemu data make photos\n"
      "  gpemu train files photos --gpu V100-PCIE-32GB --model resnet18\n"
      "  gpemu run --gpu A100-SXM4-40GB -- python train.py\n"
      "  gpemu help train files");
}

/// Adds the subcommand of this name alone, because adding all takes longer than most commands run.
/// Those that show others, and words that are no names, need all.
void add_named_command(Command app, std::string_view name, const World& world) {
  const auto* const named = std::ranges::find(kSubcommands, name, &Subcommand::name);
  if (named == kSubcommands.end() || name == "completion" || name == "help") {
    add_commands(app, world);
    return;
  }
  add_notes(app);
  named->add(app, world);
}

int run(int argc, char** argv, const World& world) {
  // Its options are not in the form of gpemu's.
  if (argc > 1 && std::string_view(argv[1]) == "nvidia-smi") {
    const std::vector<std::string> words(argv + 2, argv + argc);
    return run_nvidia_smi(words, world);
  }
  CommandTree commands("gpemu emulates GPUs for work on deep-learning systems", "gpemu",
                       world.terminal().columns);
  add_named_command(commands.root(), argc > 1 ? argv[1] : "", world);
  const Result<int> code =
      commands.run(without_former_words({argv + std::min(argc, 1), argv + argc}));
  return code ? *code : report(code.error());
}

}  // namespace

void add_commands(Command app, const World& world) {
  add_notes(app);
  for (const Subcommand& command : kSubcommands) command.add(app, world);
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
