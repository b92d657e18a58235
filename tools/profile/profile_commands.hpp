// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;  // Its header takes the compiler seconds.
}

namespace gpemu::tools {

/// The subcommands of `gpemu profile` that are about the database.
void add_profile_list_command(CLI::App& profile);
void add_profile_show_command(CLI::App& profile);
void add_profile_export_command(CLI::App& profile);
void add_profile_add_command(CLI::App& profile);
void add_profile_remove_command(CLI::App& profile);

}  // namespace gpemu::tools
