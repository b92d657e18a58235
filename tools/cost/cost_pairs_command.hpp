// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"
#include "cli/world.hpp"

namespace gpemu::tools {

/// Adds `gpemu cost pairs`.
void add_cost_pairs_command(Command cost, const World& world);

}  // namespace gpemu::tools
