// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.hpp"

namespace gpemu::tools {

/// `gpemu cost fit`: the parameters of the operation model, from measured steps.
void add_cost_fit_command(Command cost);

}  // namespace gpemu::tools
