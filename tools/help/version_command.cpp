// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "gpemu/report/terminal.hpp"

#include "cli/command.hpp"

namespace gpemu::tools {

void add_version_command(CLI::App& app) {
  app.set_version_flag("--version", "gpemu " GPEMU_VERSION, "Print the version");
  CLI::App* command = app.add_subcommand("version", "Print the version");
  command->footer("Example:\n  gpemu version");
  set_action(*command, []() -> Result<void> {
    report::print_out("gpemu {}\n", GPEMU_VERSION);
    return {};
  });
}

}  // namespace gpemu::tools
