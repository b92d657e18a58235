// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpemu/run/child_process.hpp"

#include "cli/command.hpp"
#include "profile/profile_pack_commands.hpp"

namespace gpemu::tools {
namespace {

struct MeasureOptions {
  std::string python = "python3";
  std::vector<std::string> words;
};

/// Finds the script below the folder that contains bin/ (in an installation) or tools/ (in a build
/// tree), one of which contains the command.
Result<std::filesystem::path> find_script(const std::filesystem::path& command) {
  std::error_code error;
  std::filesystem::path script =
      command.parent_path().parent_path() / GPEMU_INSTALL_DATADIR / "gpemu" / "measure_gpu.py";
  if (std::filesystem::exists(script, error)) return script;
  return fail(ErrorCode::kNotFound, "{} is missing: install gpemu, or build all of it",
              script.string());
}

/// Returns the exit code of the script, which reports its faults.
Result<int> measure(const MeasureOptions& options, const World& world) {
  GPEMU_ASSIGN(const std::filesystem::path script, find_script(world.executable));
  std::vector<std::string> words = {options.python, script.string()};
  words.insert(words.end(), options.words.begin(), options.words.end());
  return world.run_program(words, world.environment(), run::ProgramOutput::kAsItIs, {});
}

}  // namespace

void add_profile_measure_command(Command profile, const World& world) {
  Command command =
      profile.subcommand("measure", "Measure this machine's GPU with PyTorch, and make a pack");
  auto options = std::make_shared<MeasureOptions>();
  command.option("--python", options->python, "Python interpreter that has PyTorch")
      .placeholder("COMMAND")
      .show_default();
  command.option("options", options->words,
                 "Options of the measurement, after --; `-- --help` explains them");
  command.arguments_at_end();
  command.notes(
      "Examples:\n"
      "  gpemu profile measure -- --help\n"
      "  gpemu profile measure -- --output my-h200 --budget 1500\n"
      "  gpemu profile measure --python venv/bin/python -- --output quick --models 'resnet*'");
  command.on_run([options, &world] { return measure(*options, world); });
}

}  // namespace gpemu::tools
