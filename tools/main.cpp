// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>

#include <fmt/core.h>

#include "command.hpp"

namespace gpemu::tools {
namespace {

/// Carries an action's error through CLI11's parser to main.
struct ActionFailed {
  Error error;
};

int run(int argc, char** argv) {
  CLI::App app("gpemu emulates GPUs for deep-learning systems work", "gpemu");
  app.require_subcommand(1);
  add_analyze_command(app);
  add_cost_command(app);
  add_node_command(app);
  add_profile_command(app);
  add_smi_command(app);
  add_train_command(app);
  add_version_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked_for_help = error.get_exit_code() == 0;
    const int code = app.exit(error);
    return asked_for_help ? code : exit_code(ErrorCode::kInvalidArgument);
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
