// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;  // Its header takes the compiler seconds.
}

namespace gpemu::tools {

/// `gpemu cost fit`: the parameters of the operation model, from measured steps.
void add_cost_fit_command(CLI::App& cost);

}  // namespace gpemu::tools
