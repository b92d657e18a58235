// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "gpemu/base/error.hpp"

#include "cli/command.hpp"

namespace gpemu::tools {

/// Sets the format of the help of a command and of all subcommands that are added later: for a
/// terminal of so many columns.
void format_help(Command root, int columns);

/// Returns the help of gpemu or, for words such as {"node", "create"}, of its subcommand.
/// Errors: kInvalidArgument if there is none.
[[nodiscard]] Result<std::string> help_of(Command app, const std::vector<std::string>& words);

/// A page of the manual.
struct ManPage {
  std::string file;  ///< e.g. "gpemu-node-create.1".
  std::string text;  ///< in roff. Source: man(7), as groff and mandoc understand it.
};

/// Returns the pages of a command and of all below it, e.g. of "gpemu node".
[[nodiscard]] std::vector<ManPage> man_pages(Command command, const std::string& full_name);

}  // namespace gpemu::tools
