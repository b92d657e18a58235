// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"
#include "cli/world.hpp"

namespace gpemu::tools {

/// `gpemu cost eval`: how far the operation model is from measured steps.
void add_cost_eval_command(Command cost, const World& world);

}  // namespace gpemu::tools
