// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;  // Its header takes the compiler seconds.
}

namespace gpemu::tools {

/// `gpemu cost eval`: how far the operation model is from measured steps.
void add_cost_eval_command(CLI::App& cost);

}  // namespace gpemu::tools
