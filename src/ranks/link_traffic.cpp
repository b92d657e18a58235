// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/link_traffic.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "gpemu/process/peer.hpp"
#include "gpemu/process/process.hpp"
#include "gpemu/profile/nvlink.hpp"
#include "gpemu/topology/paths.hpp"

namespace gpemu::ranks {
namespace {

using device::LinkTraffic;

/// Returns the NVLinks of a device that lead to peers. Behind a switch, and where nothing else is
/// known, all do.
std::vector<int> nvlinks_to(const process::DeviceState& device,
                            const std::function<bool(int index)>& is_peer) {
  const int links = std::min<int>(profile::nvlinks_of(device.spec), device::kMostNvlinks);
  std::vector<int> found;
  for (int link = 0; link < links; ++link) {
    if (device.machine != nullptr && link >= device.machine->switched_links) {
      const auto peer = topology::nvlink_peer(*device.machine, device.index, link);
      if (!peer || !is_peer(*peer)) continue;
    }
    found.push_back(link);
  }
  return found;
}

/// Counts bytes that are spread over NVLinks; without any, over PCIe.
void count_on_links(const process::DeviceState& device, const std::vector<int>& nvlinks,
                    const LinkTraffic& bytes) {
  const device::Node& node = *process::process().node;
  if (nvlinks.empty()) return node.count_traffic(device.index, std::nullopt, bytes);
  const Bytes links = nvlinks.size();
  for (std::size_t i = 0; i < nvlinks.size(); ++i) {
    const auto part = [&](Bytes all) { return all / links + (i < all % links ? 1 : 0); };
    node.count_traffic(device.index, nvlinks[i],
                       {.sent = part(bytes.sent), .received = part(bytes.received)});
  }
}

}  // namespace

void count_peer_copy(const process::DeviceState& target, const process::DeviceState& source,
                     Bytes bytes) {
  const bool by_nvlink = process::peer_path(target, source).link == topology::LinkClass::kNvlink;
  const auto links = [by_nvlink](const process::DeviceState& device,
                                 const process::DeviceState& peer) {
    if (!by_nvlink) return std::vector<int>();
    return nvlinks_to(device, [&peer](int index) { return index == peer.index; });
  };
  count_on_links(source, links(source, target), {.sent = bytes});
  count_on_links(target, links(target, source), {.received = bytes});
}

LinkTraffic traffic_of(const CollectiveCall& call, Place place) {
  const auto ranks = static_cast<Bytes>(place.ranks);
  if (ranks < 2) return {};
  const Bytes one = call.count * element_bytes(call.type);
  const bool is_root = place.rank == call.root;
  /// Ranks of a chain that begins at one of them.
  const auto in_chain = [&](int first) -> LinkTraffic {
    const int at = (place.rank - first + place.ranks) % place.ranks;
    return {.sent = at + 1 < place.ranks ? one : 0, .received = at > 0 ? one : 0};
  };
  // Parts of unequal size move in the same steps.
  const Bytes part = call.kind == GPEMU_CUDA_ALL_REDUCE ? one / ranks : one;
  switch (call.kind) {
    case GPEMU_CUDA_ALL_REDUCE:
      return {.sent = 2 * (one - part), .received = 2 * (one - part)};
    case GPEMU_CUDA_REDUCE_SCATTER:
    case GPEMU_CUDA_ALL_GATHER:
    case GPEMU_CUDA_ALL_TO_ALL:
      return {.sent = (ranks - 1) * one, .received = (ranks - 1) * one};
    case GPEMU_CUDA_BROADCAST:
      return in_chain(call.root);
    case GPEMU_CUDA_REDUCE:
      return in_chain(call.root + 1);
    case GPEMU_CUDA_GATHER:
      return is_root ? LinkTraffic{.received = (ranks - 1) * one} : LinkTraffic{.sent = one};
    case GPEMU_CUDA_SCATTER:
      return is_root ? LinkTraffic{.sent = (ranks - 1) * one} : LinkTraffic{.received = one};
    case GPEMU_CUDA_SEND:
      return {.sent = one};
    case GPEMU_CUDA_RECEIVE:
      return {.received = one};
  }
  return {};
}

void count_collective(const Communicator& communicator, const CollectiveCall& call, Place place) {
  const topology::Fabric& fabric = communicator.fabric();
  std::vector<int> links;
  // Ranks that are alone in their machines reach the others by its adapters.
  if (fabric.inside == topology::LinkClass::kNvlink && fabric.ranks_per_node() > 1) {
    links = nvlinks_to(communicator.device(), [&communicator](int index) {
      return std::ranges::any_of(communicator.members(),
                                 [index](const Member& member) { return member.device == index; });
    });
  }
  count_on_links(communicator.device(), links, traffic_of(call, place));
}

}  // namespace gpemu::ranks
