// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>

#include "gpemu/base/error.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/profile/mig_profile.hpp"

namespace gpemu::containers {

/// Returns the labels that NVIDIA's GPU feature discovery gives to a Kubernetes node with these
/// GPUs, of which so many containers can share each. It describes the first one, as if all were the
/// same. Left out: the time, the
/// mode, which says whether a GPU has a display, and the host's machine. Empty without GPUs.
///
/// Source: the table "Generated Labels" of GPU feature discovery's documentation (v0.17).
[[nodiscard]] std::map<std::string, std::string> node_labels(
    std::span<const device::DeviceConfig> gpus, int replicas);

/// Returns the labels of a node whose GPUs MIG divides, each into these instances: by NVIDIA's
/// strategy "mixed", in which each profile has labels of its own, or "single", in which they are
/// the GPU's. Numbers that nobody has published are left out.
///
/// Errors: those of layout_with(); kInvalidArgument for instances of several profiles by "single".
/// Source: as above, "MIG 'mixed' Strategy" and "MIG 'single' Strategy".
[[nodiscard]] Result<std::map<std::string, std::string>> mig_node_labels(
    std::span<const device::DeviceConfig> gpus, std::span<const profile::MigProfile> profiles,
    std::span<const std::string> instances, bool mixed);

}  // namespace gpemu::containers
