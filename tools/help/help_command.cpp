// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command_line.hpp"
#include "cli/help_text.hpp"

namespace gpemu::tools {
namespace {

struct HelpOptions {
  std::vector<std::string> words;
  std::filesystem::path man;
};

Result<void> write_man_pages(Command app, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return fail(ErrorCode::kIo, "cannot make {}: {}", folder.string(), error.message());
  }
  for (const ManPage& page : man_pages(app, "gpemu")) {
    GPEMU_TRY(write_file_atomically(folder / page.file, page.text));
  }
  return {};
}

Result<void> help(Command app, const HelpOptions& options) {
  if (!options.man.empty()) return write_man_pages(app, options.man);
  GPEMU_ASSIGN(const std::string text, help_of(app, options.words));
  report::write_output(text);
  return {};
}

}  // namespace

void add_help_command(Command app, const World& /*world*/) {
  Command command = app.subcommand("help", "Print the help of a command");
  auto options = std::make_shared<HelpOptions>();
  command.option("command", options->words, "The command, e.g. node create");
  command.option("--man", options->man, "Write the manual pages of all commands to this folder")
      .placeholder("FOLDER");
  command.notes(
      "Examples:\n"
      "  gpemu help\n"
      "  gpemu help node create\n"
      "  gpemu help --man man1 && man -l man1/gpemu-train.1");
  command.on_run([app, options] { return help(app, *options); });
}

}  // namespace gpemu::tools
