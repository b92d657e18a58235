// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

#include "cli/command.hpp"

namespace CLI {
class FormatterBase;
}

namespace gpemu::tools {

/// Returns how an option or an argument is written, e.g. "-i,--id NUMBER", "--clock real|virtual"
/// or "folder".
[[nodiscard]] std::string option_usage(const CLI::Option& option);

/// Returns the meaning of an option, with its range, default and conditions in parentheses.
[[nodiscard]] std::string option_meaning(const CLI::Option& option);

/// Returns the words from which an option's value is chosen; empty if there are none.
[[nodiscard]] std::vector<std::string> option_choices(const CLI::Option& option);

/// Returns the numbers that an option takes, e.g. "1 to 1024" or "greater than 0"; empty if it
/// takes all or none.
[[nodiscard]] std::string option_range(const CLI::Option& option);

/// Returns the formatter for the help of a command and its subcommands, as wide as the terminal.
[[nodiscard]] std::shared_ptr<CLI::FormatterBase> help_formatter();

/// Returns the subcommand with a name, or null.
[[nodiscard]] const CLI::App* find_subcommand(const CLI::App& command, const std::string& name);

/// Returns the message that a command has no subcommand `word`, and which one was probably meant.
[[nodiscard]] std::string no_subcommand(const CLI::App& command, std::string_view full_name,
                                        const std::string& word);

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
