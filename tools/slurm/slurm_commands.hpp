// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"
#include "cli/world.hpp"

namespace gpemu::tools {

// Each adds commands of `gpemu-slurm`: those of administrators, those that let policies decide
// about the queue, and those of the plug-in. The world outlives them.
void add_administration_commands(Command slurm);
void add_policy_commands(Command slurm, const World& world);
void add_step_commands(Command slurm);

}  // namespace gpemu::tools
