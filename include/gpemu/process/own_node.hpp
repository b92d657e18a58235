// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "gpemu/device/node.hpp"

namespace gpemu::process {

/// Returns the node of this process's CUDA work, attaching to it if necessary; null if there is
/// none.
[[nodiscard]] std::shared_ptr<device::Node> own_node();

}  // namespace gpemu::process
