// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "gpemu/base/error.hpp"

#include "cli/command.hpp"
#include "cli/world.hpp"

namespace gpemu::tools {

/// Returns the path of the user's own database. Errors: kInvalidArgument if there is no place for
/// one.
[[nodiscard]] Result<std::filesystem::path> user_database(const World& world);

/// The subcommands of `gpemu profile` that use the database.
void add_profile_list_command(Command profile, const World& world);
void add_profile_show_command(Command profile, const World& world);
void add_profile_export_command(Command profile, const World& world);
void add_profile_add_command(Command profile, const World& world);
void add_profile_remove_command(Command profile, const World& world);

}  // namespace gpemu::tools
