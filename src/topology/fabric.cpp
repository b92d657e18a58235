// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/fabric.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "gpemu/topology/network.hpp"
#include "gpemu/topology/paths.hpp"
#include "gpemu/topology/peer_copy.hpp"

namespace gpemu::topology {
namespace {

/// More GPUs than NVLinks without a switch join.
constexpr int kMostBonded = 8;
/// Rings that NCCL runs through NVSwitches from Ampere on.
constexpr int kSwitchedChannels = 24;
constexpr int kPcieChannels = 2;
/// What rings reach that pass through other GPUs. Source: 8 V100 of a DGX-1, of which 5 take part:
/// 37 GB/s over two such rings (VIA-Research/vTrain), where two direct rings of 6 reach 45.
constexpr double kRelayedShare = 0.82;
/// The rate that NCCL's search assumes of an NVLink, as a share of its own, by generation. Source:
/// 20 of 25 GB/s, 20.6 of 25 and 40.1 of 50 in NCCL 2.27's src/graph/topo.h.
constexpr std::array<double, 4> kSearchedNvlink = {0.8, 0.8, 0.824, 0.802};
/// And of PCIe: 12 GB/s of 15.75 for 16 lanes of generation 3, and so on (the same file).
constexpr double kSearchedPcie = 12.0 / 15.75;

/// Links in each direction from a GPU (row) to a GPU.
using Links = std::array<std::array<int, kMostBonded>, kMostBonded>;

/// The links that one ring uses.
struct Cycle {
  std::vector<std::pair<int, int>> hops;
};

/// Collects the rings through all of `ranks` GPUs, from GPU 0. With `relays`, a GPU reaches another
/// one through a third one too.
class CycleSearch {
 public:
  CycleSearch(const Links& links, int ranks, bool relays)
      : links_(links), ranks_(ranks), relays_(relays) {}

  std::vector<Cycle> find() {
    visited_[0] = true;
    extend(0, 1);
    return std::move(found_);
  }

 private:
  /// Enough of them to choose from; cube meshes have fewer direct ones.
  static constexpr std::size_t kMostCycles = 4096;

  void extend(int from, int count) {
    if (found_.size() >= kMostCycles) return;
    if (count == ranks_) return close(from, 0);
    for (int next = 1; next < ranks_; ++next) {
      if (visited_[next]) continue;
      visited_[next] = true;
      over(from, next, [&] { extend(next, count + 1); });
      visited_[next] = false;
    }
  }
  void close(int from, int first) {
    over(from, first, [&] { found_.push_back({path_}); });
  }
  /// Goes to a GPU in each way that there is.
  template <typename Then>
  void over(int from, int to, Then then) {
    if (links_[from][to] > 0) {
      path_.emplace_back(from, to);
      then();
      path_.pop_back();
    }
    if (!relays_) return;
    for (int relay = 0; relay < ranks_; ++relay) {
      if (relay == from || relay == to || links_[from][to] > 0) continue;
      if (links_[from][relay] == 0 || links_[relay][to] == 0) continue;
      path_.emplace_back(from, relay);
      path_.emplace_back(relay, to);
      then();
      path_.pop_back();
      path_.pop_back();
    }
  }

  const Links& links_;
  int ranks_;
  bool relays_;
  std::array<bool, kMostBonded> visited_{};
  std::vector<std::pair<int, int>> path_;
  std::vector<Cycle> found_;
};

/// Chooses as many rings as the links bear.
class Packing {
 public:
  Packing(Links links, const std::vector<Cycle>& cycles, int bound)
      : free_(links), cycles_(cycles), bound_(bound) {}

  int most() {
    add(0, 0);
    return best_;
  }

 private:
  /// A search that has not ended after so many tries is as good as it gets.
  static constexpr int kMostTries = 2'000'000;

  void add(std::size_t first, int count) {
    best_ = std::max(best_, count);
    for (std::size_t i = first; i < cycles_.size(); ++i) {
      if (best_ >= bound_ || ++tries_ > kMostTries) return;
      if (take(cycles_[i])) {
        add(i, count + 1);
        give_back(cycles_[i], cycles_[i].hops.size());
      }
    }
  }
  bool take(const Cycle& cycle) {
    for (std::size_t i = 0; i < cycle.hops.size(); ++i) {
      int& links = free_[cycle.hops[i].first][cycle.hops[i].second];
      if (links == 0) {
        give_back(cycle, i);
        return false;
      }
      --links;
    }
    return true;
  }
  void give_back(const Cycle& cycle, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      ++free_[cycle.hops[i].first][cycle.hops[i].second];
    }
  }

  Links free_;
  const std::vector<Cycle>& cycles_;
  int bound_;
  int best_ = 0;
  int tries_ = 0;
};

/// Returns the most NVLinks that a GPU of the machine has.
int links_of_a_gpu(const profile::TopologySpec& machine) {
  if (machine.switched_links > 0) return machine.switched_links;
  const int gpus = static_cast<int>(machine.gpus.size());
  int most = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    int links = 0;
    for (int peer = 0; peer < gpus; ++peer) links += nvlinks_between(machine, gpu, peer);
    most = std::max(most, links);
  }
  return most;
}

/// GPUs reach each other's memory over PCIe unless a host bridge is in between.
bool are_peers(const profile::TopologySpec& machine, const profile::GpuSpec& gpu, int ranks) {
  if (!has_pcie_peers(machine, gpu)) return false;
  for (int first = 0; first < ranks; ++first) {
    for (int second = 0; second < first; ++second) {
      if (pcie_path(machine, machine.gpus[first], machine.gpus[second]) > Path::kPxb) return false;
    }
  }
  return true;
}

/// Returns a machine with only some of its GPUs, which are numbered anew in that order.
profile::TopologySpec part_of(const profile::TopologySpec& machine, std::span<const int> gpus) {
  profile::TopologySpec part;
  part.bridges = machine.bridges;
  part.switches = machine.switches;
  part.switched_links = machine.switched_links;
  part.has_open_driver = machine.has_open_driver;
  for (const int gpu : gpus) part.gpus.push_back(machine.gpus[static_cast<std::size_t>(gpu)]);
  for (const profile::NvlinkBond& bond : machine.bonds) {
    const auto first = std::ranges::find(gpus, bond.first);
    const auto second = std::ranges::find(gpus, bond.second);
    if (first == gpus.end() || second == gpus.end()) continue;
    part.bonds.push_back({.first = static_cast<int>(first - gpus.begin()),
                          .second = static_cast<int>(second - gpus.begin()),
                          .links = bond.links});
  }
  return part;
}

/// GPUs behind NVSwitches.
Fabric switched(const profile::GpuSpec& gpu, int ranks) {
  const Generation generation = gpu.generation.nccl_tuning;
  const double nvlink = gpu.nvlink_bytes_per_s.value_or(0);
  return {.ranks = ranks,
          .generation = generation,
          .switched = true,
          .line_rate = nvlink,
          .searched_rate = nvlink * kSearchedNvlink[static_cast<std::size_t>(generation)],
          .channels = kSwitchedChannels};
}

/// GPUs without NVLink, perhaps below several sockets.
Fabric over_pcie(const profile::GpuSpec& gpu, int ranks, bool peers, bool across_sockets) {
  const double rate = pcie_line_rate(gpu);
  return {.ranks = ranks,
          .generation = gpu.generation.nccl_tuning,
          .inside = peers ? LinkClass::kPciePeer : LinkClass::kPcieStaged,
          .line_rate = rate * (across_sockets ? kAcrossSockets : 1),
          .searched_rate = rate * kSearchedPcie,
          .channels = kPcieChannels};
}

}  // namespace

Rings find_rings(const profile::TopologySpec& machine, int ranks) {
  Links links{};
  int bound = 0;
  for (int from = 0; from < ranks; ++from) {
    int all = 0;
    for (int to = 0; to < ranks; ++to) {
      links[from][to] = nvlinks_between(machine, from, to);
      all += links[from][to];
    }
    bound = from == 0 ? all : std::min(bound, all);
  }
  for (const bool relays : {false, true}) {
    const std::vector<Cycle> cycles = CycleSearch(links, ranks, relays).find();
    if (const int count = Packing(links, cycles, bound).most(); count > 0) return {count, relays};
  }
  return {};
}

Result<Fabric> fabric_of(const profile::TopologySpec& machine, const profile::GpuSpec& gpu,
                         int ranks) {
  if (ranks < 2 || ranks > static_cast<int>(machine.gpus.size())) {
    return fail(ErrorCode::kInvalidArgument, "{} has {} GPUs, so a group has 2 to {}, not {}",
                machine.name, machine.gpus.size(), machine.gpus.size(), ranks);
  }
  std::vector<int> gpus(static_cast<std::size_t>(ranks));
  std::iota(gpus.begin(), gpus.end(), 0);
  return fabric_of(machine, gpu, gpus);
}

Result<Fabric> fabric_of(const profile::TopologySpec& machine, const profile::GpuSpec& gpu,
                         std::span<const int> gpus) {
  const std::set<int> distinct(gpus.begin(), gpus.end());
  if (gpus.size() < 2 || distinct.size() != gpus.size() || *distinct.begin() < 0 ||
      *distinct.rbegin() >= static_cast<int>(machine.gpus.size())) {
    return fail(ErrorCode::kInvalidArgument,
                "a group has at least 2 of the {} GPUs of {}, each once", machine.gpus.size(),
                machine.name);
  }
  const int ranks = static_cast<int>(gpus.size());
  const profile::TopologySpec part = part_of(machine, gpus);
  const bool has_nvlink = gpu.nvlink_bytes_per_s.has_value();
  if (machine.switched_links > 0 && has_nvlink) return switched(gpu, ranks);
  const int links = links_of_a_gpu(machine);
  const bool may_ring = links > 0 && has_nvlink && ranks <= kMostBonded;
  const Rings rings = may_ring ? find_rings(part, ranks) : Rings{};
  if (rings.count == 0) {
    const bool across_sockets =
        std::ranges::any_of(part.gpus, [&part](const profile::Place& place) {
          return socket_of(part, place) != socket_of(part, part.gpus.front());
        });
    return over_pcie(gpu, ranks, are_peers(part, gpu, ranks), across_sockets);
  }
  Fabric fabric = switched(gpu, ranks);
  const double share = static_cast<double>(rings.count) / links;
  fabric.switched = false;
  fabric.line_rate *= share * (rings.relayed ? kRelayedShare : 1);
  fabric.searched_rate *= share;
  fabric.channels = 2 * rings.count;
  return fabric;
}

Result<Fabric> fabric_of_nodes(const profile::TopologySpec& machine, const profile::GpuSpec& gpu,
                               int ranks, int nodes, LinkClass between) {
  if (nodes < 1 || ranks < nodes || ranks % nodes != 0) {
    return fail(ErrorCode::kInvalidArgument, "{} GPUs cannot be divided equally over {} nodes",
                ranks, nodes);
  }
  if (nodes == 1) return fabric_of(machine, gpu, ranks);
  if (machine.adapters.empty()) {
    return fail(ErrorCode::kUnsupported, "{} has no network adapters to join several nodes",
                machine.name);
  }
  const int in_a_node = ranks / nodes;
  // What is inside a node matters little to a single GPU.
  GPEMU_ASSIGN(Fabric fabric, fabric_of(machine, gpu, std::max(in_a_node, 2)));
  double all = 0, fastest = 0;
  for (const profile::NetworkAdapter& adapter : machine.adapters) {
    all += adapter.bytes_per_s;
    fastest = std::max(fastest, adapter.bytes_per_s);
  }
  fabric.ranks = in_a_node;
  const double share = all * in_a_node / static_cast<double>(machine.gpus.size());
  return across(fabric, nodes, {.kind = between, .bytes_per_s = std::max(fastest, share)});
}

Fabric fabric_of(const profile::GpuSpec& gpu, int ranks) {
  const bool nvlink = gpu.nvlink_bytes_per_s && ranks <= gpu.nvlink_gpus;
  return fabric_of(gpu, ranks,
                   nvlink                ? LinkClass::kNvlink
                   : has_pcie_peers(gpu) ? LinkClass::kPciePeer
                                         : LinkClass::kPcieStaged);
}

Fabric fabric_of(const profile::GpuSpec& gpu, int ranks, LinkClass link) {
  // For a GPU that is alone on its node, callers find no link that is slower than NVLink.
  if (!gpu.nvlink_bytes_per_s && link == LinkClass::kNvlink) {
    link = has_pcie_peers(gpu) ? LinkClass::kPciePeer : LinkClass::kPcieStaged;
  }
  if (link != LinkClass::kNvlink) return over_pcie(gpu, ranks, link == LinkClass::kPciePeer, false);
  Fabric fabric = switched(gpu, ranks);
  // Bridges join pairs, and V100s join each other directly.
  fabric.switched = gpu.nvlink_gpus > 2 && gpu.generation.nvlink_switches;
  if (!fabric.switched) fabric.channels = kSwitchedChannels / 2;
  return fabric;
}

}  // namespace gpemu::topology
