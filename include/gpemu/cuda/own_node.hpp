// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "gpemu/device/node.hpp"

namespace gpemu::cuda {

/// Returns the node that this process runs its CUDA work on, attaching to it if need be; null when
/// there is none.
[[nodiscard]] std::shared_ptr<device::Node> own_node();

}  // namespace gpemu::cuda
