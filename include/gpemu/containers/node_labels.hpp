// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>

#include "gpemu/device/node_state.hpp"

namespace gpemu::containers {

/// Returns the labels that NVIDIA's GPU feature discovery gives to a Kubernetes node with these
/// GPUs, of which so many containers can share each. It describes the first one, as if all were the
/// same. Left out: the time, the
/// mode, which says whether a GPU has a display, and the host's machine. Empty without GPUs.
///
/// Source: the table "Generated Labels" of GPU feature discovery's documentation (v0.17).
[[nodiscard]] std::map<std::string, std::string> node_labels(
    std::span<const device::DeviceConfig> gpus, int replicas);

}  // namespace gpemu::containers
