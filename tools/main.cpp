// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <typeinfo>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "command.hpp"

namespace gpemu::tools {
namespace {

/// Carries an action's error through CLI11's parser to main.
struct ActionFailed {
  Error error;
};

/// Returns the first option that a command does not know, or nothing.
std::string unknown_option(const CLI::App& command) {
  for (const std::string& word : command.remaining()) {
    if (word.size() > 1 && word.starts_with('-') && word != "--") return word;
  }
  return {};
}

/// Prints what is wrong with the command line, and where its help is.
int report_usage(const CLI::App& app, const CLI::ParseError& error, std::string_view first) {
  std::string command = "gpemu";
  const CLI::App* innermost = &app;
  while (!innermost->get_subcommands().empty()) {
    innermost = innermost->get_subcommands().front();
    command += " " + innermost->get_name();
  }
  if (innermost == &app && !first.empty() && !first.starts_with('-')) {
    fmt::print(stderr, "gpemu: there is no command '{}'; `gpemu --help` lists them\n", first);
  } else if (const std::string unknown = unknown_option(*innermost); !unknown.empty()) {
    fmt::print(stderr, "gpemu: there is no option '{}'; see `{} --help`\n", unknown, command);
  } else {
    fmt::print(stderr, "gpemu: {}; see `{} --help`\n", error.what(), command);
  }
  return exit_code(ErrorCode::kInvalidArgument);
}

int run(int argc, char** argv) {
  CLI::App app("gpemu emulates GPUs for deep-learning systems work", "gpemu");
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (typeid(error) == typeid(CLI::RuntimeError)) return error.get_exit_code();
    if (error.get_exit_code() == 0) return app.exit(error);  // Help was asked for.
    return report_usage(app, error, argc > 1 ? argv[1] : "");
  } catch (const ActionFailed& failure) {
    fmt::print(stderr, "gpemu: {}\n", failure.error.message);
    return exit_code(failure.error.code);
  }
  return 0;
}

}  // namespace

void set_action(CLI::App& command, std::function<Result<void>()> action) {
  command.callback([action = std::move(action)] {
    if (auto result = action(); !result) throw ActionFailed{std::move(result).error()};
  });
}

}  // namespace gpemu::tools

int main(int argc, char** argv) {
  try {
    return gpemu::tools::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpemu: internal error: {}\n", error.what());
    return gpemu::exit_code(gpemu::ErrorCode::kInternal);
  }
}
