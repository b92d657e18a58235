// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"

#include "cli/command.hpp"

namespace gpemu::tools {

/// A command and all below it. Their actions must not outlive what they refer to.
class CommandTree {
 public:
  /// The help is for a terminal of so many columns.
  CommandTree(const std::string& description, const std::string& name, int columns = 80);
  CommandTree(const CommandTree&) = delete;
  CommandTree& operator=(const CommandTree&) = delete;
  ~CommandTree();

  [[nodiscard]] Command root();

  /// Parses the words after the name, and runs the command that they name or prints the help or the
  /// version that they ask for. Returns the exit code. Call it once.
  ///
  /// Errors: kInvalidArgument if the words are wrong; those of the command's action.
  [[nodiscard]] Result<int> run(std::vector<std::string> words);

 private:
  std::unique_ptr<CLI::App> app_;
  Command::Actions actions_;
};

}  // namespace gpemu::tools
