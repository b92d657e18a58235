// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::device {

/// Returns the devices of a node that a list names, in its order: indices and ranges with commas
/// between them, e.g. "0-3,6". An empty list names all. With such a list, a process sees a part of
/// a node, as a container may see some of a computer's GPUs.
///
/// Errors: kInvalidArgument for a list that is none, for a device that the node does not have, and
/// for one that is named twice.
[[nodiscard]] Result<std::vector<int>> part_of_node(std::string_view list, int device_count);

}  // namespace gpemu::device
