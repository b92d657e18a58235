// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"
#include "cli/world.hpp"

namespace gpemu::tools {

/// `gpemu cost recorded`: the times of recorded models on GPUs, with and without their hosts.
void add_cost_recorded_command(Command cost, const World& world);

}  // namespace gpemu::tools
