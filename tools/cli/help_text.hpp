// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

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

/// Returns a command's manual page in roff. Source: man(7), as groff and mandoc understand it.
[[nodiscard]] std::string man_page(const CLI::App& command, const std::string& full_name);

}  // namespace gpemu::tools
