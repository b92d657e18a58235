// SPDX-License-Identifier: Apache-2.0
#include "peer.hpp"

#include "gpemu/base/mutex.hpp"

#include "process.hpp"

namespace gpemu::cuda {

PeerLink peer_link(const DeviceState& device, const DeviceState& peer) {
  const profile::GpuSpec& gpu = device.spec;
  if (device.index == peer.index || gpu.name != peer.spec.name) return PeerLink::kNone;
  if (device.index / gpu.nvlink_gpus == peer.index / gpu.nvlink_gpus) return PeerLink::kNvlink;
  return gpu.product_name.contains("GeForce") ? PeerLink::kNone : PeerLink::kPcie;
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
