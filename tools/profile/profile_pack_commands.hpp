// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;  // Its header takes the compiler seconds.
}

namespace gpemu::tools {

/// The subcommands of `gpemu profile` that use folders of measurements, not the database.
void add_profile_import_command(CLI::App& profile);
void add_profile_check_command(CLI::App& profile);
void add_profile_compare_command(CLI::App& profile);
void add_profile_measure_command(CLI::App& profile);

}  // namespace gpemu::tools
