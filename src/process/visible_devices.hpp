// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/device/mig_layout.hpp"

namespace gpemu::process {

/// Returns the indices of the node's devices that a value of CUDA_VISIBLE_DEVICES selects, in its
/// order: up to the first entry that names no device, and none at all if a device is named twice.
/// An entry is an index, or the beginning of the UUID of one device. Without a value, these are all
/// devices. Source: the same rules in torch/cuda/__init__.py (_parse_visible_devices), which follow
/// the driver.
///
/// Requires: `uuids` are those of the node's devices, by index.
[[nodiscard]] std::vector<int> visible_devices(std::optional<std::string_view> selection,
                                               std::span<const std::string> uuids);

/// Returns the MIG device that a value of CUDA_VISIBLE_DEVICES selects: its place in `devices`, or
/// nothing. A process sees one MIG device only, so only the first entry counts. An entry is the
/// beginning of a MIG device's UUID, the older MIG-GPU-<uuid>/<GPU instance>/<compute instance>, or
/// names a GPU, whose first MIG device it then means. Without a value, it is the first of all.
/// Source: "NVIDIA Multi-Instance GPU User Guide", v580, "CUDA Device Enumeration".
///
/// Requires: `uuids` are those of the node's devices, by index, and `devices` are all their MIG
/// devices, with those indices.
[[nodiscard]] std::optional<std::size_t> visible_mig_device(
    std::optional<std::string_view> selection, std::span<const std::string> uuids,
    std::span<const device::MigDevice> devices);

}  // namespace gpemu::process
