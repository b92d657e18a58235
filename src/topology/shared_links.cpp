// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/shared_links.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "gpemu/topology/paths.hpp"

namespace gpemu::topology {
namespace {

/// Returns the GPUs below a switch, except for one.
std::vector<int> others_below(const profile::TopologySpec& machine, int above, int except) {
  std::vector<int> others;
  for (int gpu = 0; gpu < static_cast<int>(machine.gpus.size()); ++gpu) {
    const auto uplinks = uplinks_above(machine, machine.gpus[static_cast<std::size_t>(gpu)]);
    if (gpu != except && std::ranges::find(uplinks, above) != uplinks.end()) others.push_back(gpu);
  }
  return others;
}

/// Appends the shared ones of the links above switches. `share`: of a link's raw rate that copies
/// reach. `gpu`: whose copy crosses them.
void add_shared(const profile::TopologySpec& machine, std::span<const int> uplinks, int gpu,
                bool upwards, double share, std::vector<SharedLink>& links) {
  for (const int above : uplinks) {
    std::vector<int> others = others_below(machine, above, gpu);
    if (others.empty()) continue;
    const profile::PcieSwitch& found = machine.switches[static_cast<std::size_t>(above)];
    links.push_back({.bytes_per_s = share * pcie_line_rate(found.uplink),
                     .upwards = upwards,
                     .others = std::move(others)});
  }
}

/// Appends the way through the host bridge above a GPU to the host's memory, if it has a limit that
/// others share.
void add_bridge(const profile::TopologySpec& machine, int gpu, bool upwards,
                std::vector<SharedLink>& links) {
  const auto bridge_of = [&machine](int index) {
    return bridge_above(machine, machine.gpus[static_cast<std::size_t>(index)]);
  };
  const auto& limit = machine.bridges[static_cast<std::size_t>(bridge_of(gpu))].bytes_per_s;
  if (!limit) return;
  SharedLink link{.bytes_per_s = *limit, .upwards = upwards};
  for (int other = 0; other < static_cast<int>(machine.gpus.size()); ++other) {
    if (other != gpu && bridge_of(other) == bridge_of(gpu)) link.others.push_back(other);
  }
  links.push_back(std::move(link));
}

}  // namespace

std::vector<SharedLink> shared_links(const profile::TopologySpec& machine,
                                     const profile::GpuSpec& gpu, int index, bool upwards) {
  std::vector<SharedLink> links;
  add_shared(machine, uplinks_above(machine, machine.gpus[static_cast<std::size_t>(index)]), index,
             upwards, gpu.pinned_copy_bytes_per_s / pcie_line_rate(gpu), links);
  add_bridge(machine, index, upwards, links);
  return links;
}

std::vector<SharedLink> shared_links(const profile::TopologySpec& machine,
                                     const profile::GpuSpec& gpu, int from, int to,
                                     const PeerPath& path) {
  std::vector<SharedLink> links;
  if (path.link == LinkClass::kNvlink) return links;
  const profile::Place& source = machine.gpus[static_cast<std::size_t>(from)];
  const profile::Place& target = machine.gpus[static_cast<std::size_t>(to)];
  std::vector<int> up = uplinks_above(machine, source);
  std::vector<int> down = uplinks_above(machine, target);
  if (path.gives_access()) {
    // It turns round at the nearest switch above both.
    const std::vector<int> crossed = uplinks_between(machine, source, target);
    const auto is_spared = [&crossed](int above) {
      return std::ranges::find(crossed, above) == crossed.end();
    };
    std::erase_if(up, is_spared);
    std::erase_if(down, is_spared);
  }
  const double share = peer_copy(gpu, path).rate / path.line_rate;
  add_shared(machine, up, from, true, share, links);
  add_shared(machine, down, to, false, share, links);
  if (!path.gives_access()) {
    add_bridge(machine, from, true, links);
    add_bridge(machine, to, false, links);
  }
  return links;
}

}  // namespace gpemu::topology
