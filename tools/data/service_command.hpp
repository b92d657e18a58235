// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"
#include "cli/world.hpp"

namespace gpemu::tools {

/// Adds the commands of remote preprocessing below `gpemu data`.
void add_data_service_commands(Command data, const World& world);

}  // namespace gpemu::tools
