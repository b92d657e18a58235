// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpemu::cuda {

/// Returns the indices of the node's devices that a value of CUDA_VISIBLE_DEVICES selects, in its
/// order: up to the first entry that names no device, and none at all if a device is named twice.
/// An entry is an index, or the beginning of the UUID of one device. Without a value, these are all
/// devices. Source: the same rules in torch/cuda/__init__.py (_parse_visible_devices), which follow
/// the driver.
///
/// Requires: `uuids` are those of the node's devices, by index.
[[nodiscard]] std::vector<int> visible_devices(std::optional<std::string_view> selection,
                                               std::span<const std::string> uuids);

}  // namespace gpemu::cuda
