// SPDX-License-Identifier: Apache-2.0
#include "gpemu/process/peer.hpp"

#include <utility>

#include "gpemu/base/mutex.hpp"
#include "gpemu/process/process.hpp"

namespace gpemu::process {

topology::PeerPath peer_path(const DeviceState& device, std::string_view gpu, int index) {
  if (device.spec.name != gpu) {
    return topology::peer_path(device.spec, topology::LinkClass::kPcieStaged);
  }
  if (device.machine == nullptr) return topology::peer_path(device.spec, device.index, index);
  const bool exists = index >= 0 && std::cmp_less(index, device.machine->gpus.size());
  // Another process has said which one it is.
  return exists ? topology::peer_path(*device.machine, device.spec, device.index, index)
                : topology::peer_path(device.spec, topology::LinkClass::kPcieStaged);
}

topology::PeerPath peer_path(const DeviceState& device, const DeviceState& peer) {
  return peer_path(device, peer.spec.name, peer.index);
}

bool can_access(const DeviceState& device, const DeviceState& peer) {
  return device.index != peer.index && peer_path(device, peer).gives_access();
}

topology::PeerCopy peer_copy(const DeviceState& to, const DeviceState& from) {
  const auto there = topology::peer_copy(to.spec, peer_path(to, from));
  const auto here = topology::peer_copy(from.spec, peer_path(from, to));
  return here.rate < there.rate ? here : there;
}

std::vector<topology::SharedLink> links_between(const DeviceState& to, const DeviceState& from) {
  if (to.machine == nullptr) return {};
  return topology::shared_links(*to.machine, to.spec, from.index, to.index, peer_path(from, to));
}

Status enable_peer_access(DeviceState& device, const DeviceState& peer) {
  if (!can_access(device, peer)) return GPEMU_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const Lock lock(process().mutex);
  return device.peers.insert(peer.ordinal).second ? GPEMU_CUDA_SUCCESS
                                                  : GPEMU_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

Status disable_peer_access(DeviceState& device, const DeviceState& peer) {
  const Lock lock(process().mutex);
  return device.peers.erase(peer.ordinal) > 0 ? GPEMU_CUDA_SUCCESS
                                              : GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // namespace gpemu::process
