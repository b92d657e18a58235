// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.hpp"

namespace gpemu::tools {

/// Returns CLI11's object of a command. For tools/cli only.
[[nodiscard]] CLI::App& app_of(const Command& command);

}  // namespace gpemu::tools
