// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "gpemu/process/device_state.hpp"
#include "gpemu/process/status.hpp"
#include "gpemu/topology/peer_copy.hpp"
#include "gpemu/topology/shared_links.hpp"

namespace gpemu::process {

/// Returns what joins a device to another one of its node: as the node's topology says or, if none
/// is described, as the GPU's specification does. GPUs of different kinds do not reach each other's
/// memory. Requires: the other one is not the device itself.
///
/// Source: GPUs of four kinds together (github.com/aikitoria/open-gpu-kernel-modules/pull/5).
[[nodiscard]] topology::PeerPath peer_path(const DeviceState& device, const DeviceState& peer);
/// The same for a device that this process may not see. `index`: in the node.
[[nodiscard]] topology::PeerPath peer_path(const DeviceState& device, std::string_view gpu,
                                           int index);

/// Returns whether a device can use a peer's memory; not its own.
[[nodiscard]] bool can_access(const DeviceState& device, const DeviceState& peer);

/// Returns what a copy to a device from another one takes.
[[nodiscard]] topology::PeerCopy peer_copy(const DeviceState& to, const DeviceState& from);

/// Returns the links that such a copy shares with those of other GPUs.
[[nodiscard]] std::vector<topology::SharedLink> links_between(const DeviceState& to,
                                                              const DeviceState& from);

/// Allows a device's context to use a peer's memory, or ends that. Errors: PEER_ACCESS_UNSUPPORTED
/// if there is no link (Source: github.com/ggml-org/llama.cpp/issues/3230);
/// PEER_ACCESS_ALREADY_ENABLED; PEER_ACCESS_NOT_ENABLED.
[[nodiscard]] Status enable_peer_access(DeviceState& device, const DeviceState& peer);
[[nodiscard]] Status disable_peer_access(DeviceState& device, const DeviceState& peer);

}  // namespace gpemu::process
