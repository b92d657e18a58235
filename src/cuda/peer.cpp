// SPDX-License-Identifier: Apache-2.0
#include "peer.hpp"

#include "gpemu/base/mutex.hpp"

#include "process.hpp"

namespace gpemu::cuda {

namespace {

/// A copy between devices that do not reach each other, as a share of the pinned rate: it is staged
/// in host memory. Source: 12.9 of 25.6 GB/s on RTX 4090
/// (github.com/tinygrad/open-gpu-kernel-modules/issues/6).
constexpr double kStagedShare = 0.5;

}  // namespace

PeerLink peer_link(const DeviceState& device, std::string_view gpu_name, int index) {
  const profile::GpuSpec& gpu = device.spec;
  if (device.index == index || gpu.name != gpu_name) return PeerLink::kNone;
  if (device.index / gpu.nvlink_gpus == index / gpu.nvlink_gpus) return PeerLink::kNvlink;
  return gpu.product_name.contains("GeForce") ? PeerLink::kNone : PeerLink::kPcie;
}

PeerLink peer_link(const DeviceState& device, const DeviceState& peer) {
  return peer_link(device, peer.spec.name, peer.index);
}

double peer_copy_rate(const DeviceState& device, PeerLink link, double pinned) {
  switch (link) {
    case PeerLink::kNvlink:
      return device.spec.nvlink_bytes_per_s.value_or(pinned);
    case PeerLink::kPcie:
      return pinned;
    case PeerLink::kNone:
      break;
  }
  return pinned * kStagedShare;
}

Status enable_peer_access(DeviceState& device, const DeviceState& peer) {
  if (peer_link(device, peer) == PeerLink::kNone) return GPEMU_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const Lock lock(process().mutex);
  return device.peers.insert(peer.ordinal).second ? GPEMU_CUDA_SUCCESS
                                                  : GPEMU_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

Status disable_peer_access(DeviceState& device, const DeviceState& peer) {
  const Lock lock(process().mutex);
  return device.peers.erase(peer.ordinal) > 0 ? GPEMU_CUDA_SUCCESS
                                              : GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // namespace gpemu::cuda
