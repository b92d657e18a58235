// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"
#include "cli/world.hpp"

namespace gpemu::tools {

/// `gpemu cost fit`: the parameters of the operation model, from measured steps.
void add_cost_fit_command(Command cost, const World& world);

}  // namespace gpemu::tools
