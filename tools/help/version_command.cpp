// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/terminal.hpp"

#include "cli/command_line.hpp"

namespace gpemu::tools {

void add_version_command(Command app, const World& /*world*/) {
  app.version_flag("--version", "gpemu " GPEMU_VERSION, "Print the version");
  Command command = app.subcommand("version", "Print the version");
  command.notes("Example:\n  gpemu version");
  command.on_run([]() -> Result<void> {
    report::print_out("gpemu {}\n", GPEMU_VERSION);
    return {};
  });
}

}  // namespace gpemu::tools
