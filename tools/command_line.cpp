// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include <CLI/CLI.hpp>

#include "gpemu/base/text.hpp"

#include "command.hpp"
#include "similar_word.hpp"
#include "terminal.hpp"

namespace gpemu::tools {
namespace {

/// Carries an action's error through CLI11's parser to run_command_line().
struct ActionFailed {
  Error error;
};

int report(const Error& error) {
  print_error("gpemu: {}\n", printable_message(error.message));
  return exit_code(error.code);
}

/// Returns "; did you mean 'WORD'?", or nothing where no word is similar.
std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string similar = similar_word(word, known);
  return similar.empty() ? "" : fmt::format("; did you mean '{}'?", similar);
}

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands({})) names.push_back(sub->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// Returns what is wrong with the command line that ended in `command`, whose full name is `name`.
std::string fault_of(const CLI::App& command, std::string_view name, const CLI::ParseError& error) {
  const std::vector<std::string> rest = command.remaining();
  for (const std::string& word : rest) {
    if (word.size() < 2 || !word.starts_with('-') || word == "--") continue;
    const std::string option = word.substr(0, word.find('='));
    return fmt::format("there is no option '{}'{}; see `{} --help`", printable(option),
                       suggestion(option, option_names(command)), name);
  }
  const bool has_commands = !command.get_subcommands({}).empty();
  if (has_commands && !rest.empty()) {
    return fmt::format("there is no command '{}'{}; `{} --help` lists them",
                       printable(fmt::format("{} {}", name, rest.front())),
                       suggestion(rest.front(), command_names(command)), name);
  }
  if (has_commands) return fmt::format("which command? `{} --help` lists them", name);
  if (!rest.empty() && rest.front() != "--") {
    return fmt::format("'{}' is one argument too many; see `{} --help`", printable(rest.front()),
                       name);
  }
  return fmt::format("{}; see `{} --help`", printable_message(error.what()), name);
}

/// Reports what is wrong with the command line, and where its help is.
int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  std::string name = "gpemu";
  const CLI::App* innermost = &app;
  while (!innermost->get_subcommands().empty()) {
    innermost = innermost->get_subcommands().front();
    name += " " + innermost->get_name();
  }
  return report({ErrorCode::kInvalidArgument, fault_of(*innermost, name, error)});
}

int run(int argc, char** argv) {
  CLI::App app("gpemu emulates GPUs for deep-learning systems work", "gpemu");
  add_commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& ended) {  // As its program did.
    return ended.get_exit_code();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return report_usage(app, error);
    app.exit(error);  // Help was asked for.
  } catch (const ActionFailed& failure) {
    return report(failure.error);
  }
  return 0;
}

}  // namespace

void set_action(CLI::App& command, std::function<Result<void>()> action) {
  command.callback([action = std::move(action)] {
    if (auto result = action(); !result) throw ActionFailed{std::move(result).error()};
  });
}

void add_commands(CLI::App& app) {
  app.require_subcommand(1);
  add_analyze_command(app);
  add_cost_command(app);
  add_data_command(app);
  add_node_command(app);
  add_predict_command(app);
  add_profile_command(app);
  add_run_command(app);
  add_smi_command(app);
  add_train_command(app);
  add_version_command(app);
}

int run_command_line(int argc, char** argv) {
  fill_standard_descriptors();
  int code = 0;
  try {
    code = run(argc, argv);
  } catch (const std::exception& error) {
    code = report({ErrorCode::kInternal, fmt::format("internal error: {}", error.what())});
  }
  // A fault that was reported counts more than output that it cut short.
  const Result<void> written = finish_output();
  return code == 0 && !written ? report(written.error()) : code;
}

}  // namespace gpemu::tools
