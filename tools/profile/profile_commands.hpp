// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "gpemu/base/error.hpp"

namespace CLI {
class App;  // Its header takes the compiler seconds.
}

namespace gpemu::tools {

/// Returns the path of the user's own database. Errors: kInvalidArgument if there is no place for
/// one.
[[nodiscard]] Result<std::filesystem::path> user_database();

/// The subcommands of `gpemu profile` that use the database.
void add_profile_list_command(CLI::App& profile);
void add_profile_show_command(CLI::App& profile);
void add_profile_export_command(CLI::App& profile);
void add_profile_add_command(CLI::App& profile);
void add_profile_remove_command(CLI::App& profile);

}  // namespace gpemu::tools
