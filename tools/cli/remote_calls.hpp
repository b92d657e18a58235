// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/service/rpc.hpp"

#include "cli/world.hpp"

namespace gpemu::tools {

/// Returns gRPC, which lies beside the command. Errors: those of load_rpc().
[[nodiscard]] Result<service::Rpc*> remote_calls(const World& world);

/// Checks an address, HOST:PORT, that `what` gives, e.g. "--listen". Where somebody listens, port 0
/// is any that is free.
///
/// Errors: kInvalidArgument.
[[nodiscard]] Result<void> check_address(std::string_view what, std::string_view address,
                                         bool listens);

}  // namespace gpemu::tools
