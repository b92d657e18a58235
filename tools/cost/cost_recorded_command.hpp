// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;  // Its header takes the compiler seconds.
}

namespace gpemu::tools {

/// `gpemu cost recorded`: what recorded models take on GPUs, and on hosts as they were measured.
void add_cost_recorded_command(CLI::App& cost);

}  // namespace gpemu::tools
