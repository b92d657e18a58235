// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"
#include "cli/world.hpp"

namespace gpemu::tools {

/// Adds `gpemu node power`, which shows and changes the power limits and clocks of a node.
void add_power_command(Command node, const World& world);

}  // namespace gpemu::tools
