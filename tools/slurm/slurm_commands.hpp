// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"

namespace gpemu::tools {

// Each adds commands of `gpemu-slurm`: those of administrators, and those of the plug-in.
void add_administration_commands(Command slurm);
void add_step_commands(Command slurm);

}  // namespace gpemu::tools
