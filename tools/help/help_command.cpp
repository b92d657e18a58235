// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command.hpp"
#include "cli/help_text.hpp"
#include "cli/similar_word.hpp"

namespace gpemu::tools {
namespace {

struct HelpOptions {
  std::vector<std::string> words;
  std::filesystem::path man;
};

/// Writes the pages of a command and of all below it.
Result<void> write_man_pages(const CLI::App& command, const std::string& full_name,
                             const std::filesystem::path& folder) {
  std::string name = full_name + ".1";
  std::ranges::replace(name, ' ', '-');
  GPEMU_TRY(write_file_atomically(folder / name, man_page(command, full_name)));
  for (const CLI::App* sub : command.get_subcommands({})) {
    if (sub->get_group().empty()) continue;
    GPEMU_TRY(write_man_pages(*sub, full_name + " " + sub->get_name(), folder));
  }
  return {};
}

Result<void> help(const CLI::App& app, const HelpOptions& options) {
  if (!options.man.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.man, error);
    if (error) {
      return fail(ErrorCode::kIo, "cannot make {}: {}", options.man.string(), error.message());
    }
    return write_man_pages(app, "gpemu", options.man);
  }
  const CLI::App* command = &app;
  std::string name = "gpemu";
  for (const std::string& word : options.words) {
    std::vector<std::string> known;
    const CLI::App* found = nullptr;
    for (const CLI::App* sub : command->get_subcommands({})) {
      known.push_back(sub->get_name());
      if (sub->check_name(word)) found = sub;
    }
    if (found == nullptr) {
      const std::string similar = similar_word(word, known);
      return fail(ErrorCode::kInvalidArgument,
                  "there is no command '{} {}'{}; `{} --help` lists them", name, word,
                  similar.empty() ? "" : "; did you mean '" + similar + "'?", name);
    }
    command = found;
    name += " " + command->get_name();
  }
  report::write_output(
      command->get_formatter()->make_help(command, name, CLI::AppFormatMode::Normal));
  return {};
}

}  // namespace

void add_help_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "Print the help of a command");
  auto options = std::make_shared<HelpOptions>();
  command->add_option("command", options->words, "The command, e.g. node create");
  command->add_option("--man", options->man,
                      "Instead, write the manual pages of all commands to this folder");
  command->footer(
      "Examples:\n"
      "  gpemu help\n"
      "  gpemu help node create\n"
      "  gpemu help --man man1 && man -l man1/gpemu-train.1");
  set_action(*command, [&app, options] { return help(app, *options); });
}

}  // namespace gpemu::tools
