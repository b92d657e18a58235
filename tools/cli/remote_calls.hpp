// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/error.hpp"
#include "gpemu/service/rpc.hpp"

#include "cli/world.hpp"

namespace gpemu::tools {

/// Returns gRPC, which lies beside the command. Errors: those of load_rpc().
[[nodiscard]] Result<service::Rpc*> remote_calls(const World& world);

}  // namespace gpemu::tools
