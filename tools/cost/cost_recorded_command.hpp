// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;  // Its header takes the compiler seconds.
}

namespace gpemu::tools {

/// `gpemu cost recorded`: the times of recorded models on GPUs, with and without their hosts.
void add_cost_recorded_command(CLI::App& cost);

}  // namespace gpemu::tools
