// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"
#include "cli/world.hpp"

namespace gpemu::tools {

/// Adds `gpemu cost transformer`.
void add_cost_transformer_command(Command cost, const World& world);

}  // namespace gpemu::tools
