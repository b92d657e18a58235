// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"
#include "cli/world.hpp"

namespace gpemu::tools {

/// The subcommands of `gpemu profile` that use folders of measurements, not the database.
void add_profile_import_command(Command profile, const World& world);
void add_profile_check_command(Command profile, const World& world);
void add_profile_compare_command(Command profile, const World& world);
void add_profile_measure_command(Command profile, const World& world);

}  // namespace gpemu::tools
