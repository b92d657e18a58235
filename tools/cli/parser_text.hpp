// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

/// The texts of CLI11's commands and options. For tools/cli only.
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

/// Returns the subcommand with a name, or null.
[[nodiscard]] const CLI::App* find_subcommand(const CLI::App& command, const std::string& name);

/// Returns the message that a command has no subcommand `word`, and which one was probably meant.
[[nodiscard]] std::string no_subcommand(const CLI::App& command, std::string_view full_name,
                                        const std::string& word);

}  // namespace gpemu::tools
