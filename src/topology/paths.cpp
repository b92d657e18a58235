// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/paths.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace gpemu::topology {
namespace {

using profile::Place;
using profile::TopologySpec;

/// The switches above a place, from the nearest to the host bridge.
struct Way {
  std::vector<int> switches;
  int bridge = 0;
};

Way way_up(const TopologySpec& machine, Place place) {
  Way way;
  while (place.below_switch) {
    way.switches.push_back(place.index);
    place = machine.switches[static_cast<std::size_t>(place.index)].place;
  }
  way.bridge = place.index;
  return way;
}

}  // namespace

Path pcie_path(const TopologySpec& machine, const Place& from, const Place& to) {
  const Way first = way_up(machine, from);
  const Way second = way_up(machine, to);
  const auto shared = std::ranges::find_first_of(first.switches, second.switches);
  if (shared != first.switches.end()) {
    const auto crossed = (shared - first.switches.begin()) +
                         (std::ranges::find(second.switches, *shared) - second.switches.begin()) +
                         1;
    return crossed == 1 ? Path::kPix : Path::kPxb;
  }
  if (first.bridge == second.bridge) return Path::kPhb;
  return numa_node_of(machine, from) == numa_node_of(machine, to) ? Path::kNode : Path::kSystem;
}

int bridge_above(const TopologySpec& machine, const Place& place) {
  return way_up(machine, place).bridge;
}

int numa_node_of(const TopologySpec& machine, const Place& place) {
  return machine.bridges[static_cast<std::size_t>(way_up(machine, place).bridge)].numa_node;
}

int socket_of(const TopologySpec& machine, const Place& place) {
  return machine.bridges[static_cast<std::size_t>(way_up(machine, place).bridge)].socket;
}

std::vector<int> uplinks_between(const TopologySpec& machine, const Place& from, const Place& to) {
  const std::vector<int> first = way_up(machine, from).switches;
  const std::vector<int> second = way_up(machine, to).switches;
  const auto shared = std::ranges::find_first_of(first, second);
  std::vector<int> crossed(first.begin(), shared);
  const auto end = shared == first.end() ? second.end() : std::ranges::find(second, *shared);
  crossed.insert(crossed.end(), second.begin(), end);
  return crossed;
}

std::vector<int> uplinks_above(const TopologySpec& machine, const Place& place) {
  return way_up(machine, place).switches;
}

int nvlinks_between(const TopologySpec& machine, int first, int second) {
  if (first == second) return 0;
  if (machine.switched_links > 0) return machine.switched_links;
  const auto joins = [&](const profile::NvlinkBond& bond) {
    return std::minmax(bond.first, bond.second) == std::minmax(first, second);
  };
  const auto bond = std::ranges::find_if(machine.bonds, joins);
  return bond == machine.bonds.end() ? 0 : bond->links;
}

std::optional<int> nvlink_peer(const TopologySpec& machine, int gpu, int link) {
  int next = 0;
  for (const profile::NvlinkBond& bond : machine.bonds) {
    if (bond.first != gpu && bond.second != gpu) continue;
    next += bond.links;
    if (link < next) return bond.first == gpu ? bond.second : bond.first;
  }
  return std::nullopt;
}

std::string_view path_name(Path path) {
  switch (path) {
    case Path::kSelf:
      return "X";
    case Path::kPix:
      return "PIX";
    case Path::kPxb:
      return "PXB";
    case Path::kPhb:
      return "PHB";
    case Path::kNode:
      return "NODE";
    case Path::kSystem:
      break;
  }
  return "SYS";
}

}  // namespace gpemu::topology
