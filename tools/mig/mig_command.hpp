// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/error.hpp"

#include "cli/command.hpp"
#include "cli/world.hpp"

namespace gpemu::tools {

/// How the command ends if not all that was asked for was done.
struct MigExitCodes {
  int not_found = exit_code(ErrorCode::kNotFound);
  int no_room = exit_code(ErrorCode::kUnavailable);
  int in_use = exit_code(ErrorCode::kUnavailable);
};

/// Adds `mig` as nvidia-smi has it: the same options and printouts, on the node that GPEMU_NODE
/// names, or the only one. They keep `world`.
void add_mig_command_of_nvidia_smi(Command app, const MigExitCodes& codes, const World& world);

}  // namespace gpemu::tools
