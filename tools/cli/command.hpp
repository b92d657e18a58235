// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

namespace CLI {
class App;  // Only sources in tools/cli use CLI11, whose header takes the compiler seconds.
class Option;
}  // namespace CLI

namespace gpemu::tools {

/// An option, a flag or an argument of a command. Copies refer to the same option.
class Option {
 public:
  Option required();
  /// The values are whole numbers from `least` to `most`.
  Option range(std::int64_t least, std::int64_t most);
  /// The values are numbers from `least` to `most`.
  Option real_range(double least, double most);
  /// The values are greater than 0.
  Option positive();
  /// The values are 0 or greater.
  Option non_negative();
  Option one_of(std::span<const std::string_view> choices);
  Option one_of(std::initializer_list<std::string_view> choices);
  /// A word may contain several values, with this character between them.
  Option separated_by(char separator);
  /// Each use of the option takes one word. By default, it takes all words up to the next option.
  Option one_word_each();
  /// The help shows this word, e.g. FOLDER, in place of the value. Without it, the word follows
  /// from the option's name and type.
  Option placeholder(const std::string& word);
  /// The help shows the current value of the variable.
  Option show_default();
  /// This option and `other`, which was added before (e.g. "--data"), may not be given together.
  Option excludes(const std::string& other);
  /// This option may be given only together with `other`, which was added before.
  Option needs(const std::string& other);

 private:
  friend class Command;
  explicit Option(CLI::Option& option) : option_(&option) {}

  CLI::Option* option_;
};

/// A command: gpemu itself or one of its subcommands. Copies refer to the same command, which a
/// CommandTree owns.
class Command {
 public:
  Command subcommand(const std::string& name, const std::string& description);
  /// Gives the command a second name.
  Command alias(const std::string& name);
  /// Leaves the command out of the help, the manual and completion.
  Command hidden();
  /// One of the command's subcommands must be given.
  void require_subcommand();
  /// Text that the help shows after the options: notes and examples.
  void notes(const std::string& text);

  /// Adds an option such as "-i,--id" or, if the name has no dash, an argument. Its values are
  /// stored in `value`, which must exist when the command line is parsed.
  Option option(const std::string& name, std::string& value, const std::string& meaning);
  Option option(const std::string& name, std::filesystem::path& value, const std::string& meaning);
  Option option(const std::string& name, int& value, const std::string& meaning);
  Option option(const std::string& name, std::uint64_t& value, const std::string& meaning);
  Option option(const std::string& name, double& value, const std::string& meaning);
  Option option(const std::string& name, std::optional<double>& value, const std::string& meaning);
  Option option(const std::string& name, std::optional<std::uint32_t>& value,
                const std::string& meaning);
  Option option(const std::string& name, std::optional<std::int64_t>& value,
                const std::string& meaning);
  Option option(const std::string& name, std::vector<std::string>& values,
                const std::string& meaning);
  Option option(const std::string& name, std::vector<int>& values, const std::string& meaning);
  Option option(const std::string& name, std::vector<double>& values, const std::string& meaning);
  /// Adds an option without a value, which sets `value` to true.
  Option flag(const std::string& name, bool& value, const std::string& meaning);

  /// Adds a flag that prints a version and ends the command.
  void version_flag(const std::string& name, const std::string& version,
                    const std::string& meaning);

  /// The help shows options that are added later under this title, by default "Options".
  void group(const std::string& title);
  /// If an option that is added later is given twice, its last value counts. By default, that is a
  /// fault.
  void last_value_counts();
  /// All words after the first argument are arguments, even if they begin with a dash.
  void arguments_at_end();
  /// No subcommand may be given with an option of this command. Call it after both have been added.
  void options_exclude_subcommands();
  /// Returns whether an option was given, e.g. "--gpu".
  [[nodiscard]] bool given(const std::string& option) const;

  /// Sets what the command does once its options have been parsed, unless a subcommand was given.
  /// An error is printed and decides the exit code.
  void on_run(std::function<Result<void>()> action);
  /// The same for an action that returns the command's exit code.
  void on_run(std::function<Result<int>()> action);

 private:
  friend class CommandTree;
  friend CLI::App& app_of(const Command& command);
  /// The actions of on_run(), by command.
  using Actions = std::map<const CLI::App*, std::function<Result<int>()>>;
  Command(CLI::App& app, Actions& actions) : app_(&app), actions_(&actions) {}

  CLI::App* app_;
  Actions* actions_;
};

}  // namespace gpemu::tools
