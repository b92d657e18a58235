// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "device_state.hpp"
#include "status.hpp"

namespace gpemu::cuda {

/// How a device reaches the memory of another.
enum class PeerLink : std::uint8_t {
  kNone,  ///< not at all: copies are staged in host memory.
  kPcie,
  kNvlink,
};

/// Returns how a device reaches a peer's memory. NVLink joins GPUs of one kind that lie next to
/// each other in the node, `nvlink_gpus` of them. Other GPUs of one kind reach each other over
/// PCIe, unless they are GeForce products. GPUs of different kinds do not reach each other, nor
/// does a device itself.
///
/// Source: RTX 3090 (github.com/NVIDIA/nccl/issues/1127); RTX 4090
/// (github.com/tinygrad/open-gpu-kernel-modules/issues/6); GPUs of four kinds together
/// (github.com/aikitoria/open-gpu-kernel-modules/pull/5).
[[nodiscard]] PeerLink peer_link(const DeviceState& device, const DeviceState& peer);
/// The same for a device that this process may not see. `index`: in the node.
[[nodiscard]] PeerLink peer_link(const DeviceState& device, std::string_view gpu, int index);

/// Returns the rate of a copy over a link. `pinned`: the rate of copies to or from the host.
[[nodiscard]] double peer_copy_rate(const DeviceState& device, PeerLink link, double pinned);

/// Allows a device's context to use a peer's memory, or ends that. Errors: PEER_ACCESS_UNSUPPORTED
/// if there is no link (Source: github.com/ggml-org/llama.cpp/issues/3230);
/// PEER_ACCESS_ALREADY_ENABLED; PEER_ACCESS_NOT_ENABLED.
[[nodiscard]] Status enable_peer_access(DeviceState& device, const DeviceState& peer);
[[nodiscard]] Status disable_peer_access(DeviceState& device, const DeviceState& peer);

}  // namespace gpemu::cuda
