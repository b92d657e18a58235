// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/collective.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gpemu::topology {
namespace {

constexpr double kGigabyte = 1e9;
constexpr double kMicrosecond = 1e-6;

template <typename Enum>
constexpr std::size_t index(Enum value) {
  return static_cast<std::size_t>(value);
}

// ---- NCCL's constants, by protocol: LL, LL128, Simple. In microseconds and GB/s.

using PerProtocol = std::array<double, 3>;

constexpr PerProtocol kRingBase = {6.6, 14.0, 8.4};
constexpr PerProtocol kTreeBase = {6.8, 14.0, 8.4};
constexpr PerProtocol kRingNvlinkHop = {0.6, 1.9, 3.4};
constexpr PerProtocol kRingPcieHop = {1.0, 2.5, 5.7};
constexpr PerProtocol kRingNetworkHop = {2.7, 4.0, 14.0};
constexpr PerProtocol kTreeNvlinkHop = {0.6, 1.25, 4.0};
constexpr PerProtocol kTreePcieHop = {1.0, 1.9, 4.0};
constexpr PerProtocol kTreeNetworkHop = {5.0, 8.5, 14.0};
/// The least latency of a step within one of several nodes, on hosts from Intel.
constexpr double kLeastHop = 1.0;
constexpr double kSimpleLeastHopFactor = 3.0;
/// What a ring's network steps cost more when buffers are long.
constexpr double kLongBufferLatency = 1.4;
constexpr double kLongBufferBytes = 64;  ///< per channel and rank.

// By generation.
constexpr std::array<double, 4> kMostLlOfOneNode = {39.0, 87.7, 141.0, 282.0};
constexpr double kMostLlOfTwoNodes = 39.0;
constexpr double kMostLlOfMoreNodes = 20.4;
constexpr std::array<double, 4> kRingLl128OfAChannel = {20.0, 20.0, 36.7, 40.0};
/// For one node, two, and more.
constexpr std::array<std::array<double, 3>, 4> kTreeOfAChannel = {
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}}};
constexpr std::array<std::array<double, 3>, 4> kTreeLl128OfAChannel = {
    {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {55.6, 31.7, 20.0}}};
constexpr std::array<double, 4> kNvlsEfficiency = {0.0, 0.0, 0.85, 0.74};
constexpr std::array<int, 4> kNvlsChannels = {0, 0, 16, 24};
constexpr double kNvlsLatency = 25.0;
constexpr double kNvlsNetworkHop = 20.9;
/// NVLS is measured to be chosen from 5 ranks on.
constexpr int kFewestNvlsRanks = 5;
constexpr double kRingShareOfBus = 0.92;
constexpr double kTreeLlShare = 1 / 3.8;
constexpr double kTreeLl128ShareOfOneNode = 7.0 / 9;
constexpr double kTreeLl128Share = 15.0 / 16;

/// The bus bandwidth of trees over TCP between two nodes, as a share of that of rings. Fitted to
/// steps on machines with RTX 2080 Ti by scripts/claims/fit_tree_share.py.
constexpr double kTreeOverSockets = 0.87;

/// How far a tree falls short, by the buffer's size, from 64 bytes in powers of two.
constexpr std::array<std::array<double, 24>, 3> kTreeCorrection = {{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
}};

double tree_correction(Protocol protocol, Bytes bytes) {
  const auto power = static_cast<std::size_t>(std::bit_width(std::max<Bytes>(bytes, 64)) - 7);
  const auto& row = kTreeCorrection[index(protocol)];
  return row[std::min(power, row.size() - 1)];
}

int steps_of(Collective collective, int ranks) {
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (ranks - 1);
    case Collective::kBroadcast:
    case Collective::kReduce:
      return ranks;
    case Collective::kSendReceive:
      return 1;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
      break;
  }
  return ranks - 1;
}

int floor_log2(int value) {
  return std::bit_width(static_cast<unsigned>(value)) - 1;
}

/// One node, two, or more: an index into tables.
std::size_t size_of_cluster(int nodes) {
  return static_cast<std::size_t>(std::min(nodes, 3) - 1);
}

Choice ring(const Fabric& fabric, Collective collective, Bytes bytes, Protocol protocol) {
  const bool several = fabric.nodes > 1;
  const double bus =
      (several ? std::min(fabric.searched_rate, fabric.network_rate) : fabric.searched_rate) /
      kGigabyte;
  const std::size_t generation = index(fabric.generation);
  double rate = bus;
  if (protocol == Protocol::kLl) {
    const double most = !several            ? kMostLlOfOneNode[generation]
                        : fabric.nodes == 2 ? kMostLlOfTwoNodes
                                            : kMostLlOfMoreNodes;
    rate = std::min(most, bus / 2);
  } else if (protocol == Protocol::kLl128) {
    rate = std::min(kRingShareOfBus * bus, fabric.channels * kRingLl128OfAChannel[generation]);
  }
  const std::size_t p = index(protocol);
  const int steps = steps_of(collective, fabric.ranks);
  double hop = fabric.inside == LinkClass::kNvlink ? kRingNvlinkHop[p] : kRingPcieHop[p];
  int network_steps = 0;
  if (several) {
    network_steps = std::min(
        steps, collective == Collective::kAllReduce ? 2 * (fabric.nodes - 1) : fabric.nodes - 1);
    hop = std::max(hop,
                   protocol == Protocol::kSimple ? kSimpleLeastHopFactor * kLeastHop : kLeastHop);
  }
  double base = kRingBase[p];
  double hops = (steps - network_steps) * hop + network_steps * kRingNetworkHop[p];
  if (protocol == Protocol::kSimple && several && collective == Collective::kAllReduce &&
      static_cast<double>(bytes) / (fabric.channels * fabric.ranks) >= kLongBufferBytes) {
    base *= kLongBufferLatency;
    hops *= kLongBufferLatency;
  }
  const double algorithm_rate = rate * fabric.ranks / steps;
  return {.algorithm = Algorithm::kRing,
          .protocol = protocol,
          .base_s = base * kMicrosecond,
          .hops_s = hops * kMicrosecond,
          .expected_s = (base + hops) * kMicrosecond +
                        static_cast<double>(bytes) / (algorithm_rate * kGigabyte)};
}

Choice tree(const Fabric& fabric, Bytes bytes, Protocol protocol) {
  const double bus = (fabric.nodes > 2 ? std::min(fabric.searched_rate, fabric.network_rate)
                                       : fabric.searched_rate) /
                     kGigabyte;
  const std::size_t generation = index(fabric.generation), p = index(protocol);
  const std::size_t cluster = size_of_cluster(fabric.nodes);
  double rate =
      std::min(kRingShareOfBus * bus, fabric.channels * kTreeOfAChannel[generation][cluster]);
  if (protocol == Protocol::kLl) {
    const double most = fabric.nodes == 1   ? kMostLlOfOneNode[generation]
                        : fabric.nodes == 2 ? kMostLlOfTwoNodes
                                            : kMostLlOfMoreNodes;
    rate = std::min(rate * kTreeLlShare, most);
  } else if (protocol == Protocol::kLl128) {
    rate = std::min(rate * (fabric.nodes == 1 ? kTreeLl128ShareOfOneNode : kTreeLl128Share),
                    fabric.channels * kTreeLl128OfAChannel[generation][cluster]);
  }
  const double hop = fabric.inside == LinkClass::kNvlink ? kTreeNvlinkHop[p] : kTreePcieHop[p];
  const double hops =
      2 * ((fabric.ranks_per_node() - 1) * hop + floor_log2(fabric.nodes) * kTreeNetworkHop[p]);
  const double algorithm_rate = rate / 2 * tree_correction(protocol, bytes);
  return {.algorithm = Algorithm::kTree,
          .protocol = protocol,
          .base_s = kTreeBase[p] * kMicrosecond,
          .hops_s = hops * kMicrosecond,
          .expected_s = (kTreeBase[p] + hops) * kMicrosecond +
                        static_cast<double>(bytes) / (algorithm_rate * kGigabyte)};
}

/// Requires: the GPUs' generation has NVLS.
Choice nvls(const Fabric& fabric, Bytes bytes) {
  const std::size_t generation = index(fabric.generation);
  const int channels = kNvlsChannels[generation];
  double rate = fabric.searched_rate * kNvlsEfficiency[generation] * (channels - 1) / channels;
  if (fabric.nodes == 2) rate = std::min(rate, fabric.network_rate);
  if (fabric.nodes > 2)
    rate = std::min(rate, fabric.network_rate / 2 * fabric.nodes / (fabric.nodes - 1));
  const double latency = kNvlsLatency + 2 * floor_log2(fabric.nodes) * kNvlsNetworkHop;
  return {.algorithm = fabric.nodes > 1 ? Algorithm::kNvlsTree : Algorithm::kNvls,
          .protocol = Protocol::kSimple,
          .base_s = 0,
          .hops_s = latency * kMicrosecond,
          .expected_s = latency * kMicrosecond + static_cast<double>(bytes) / rate};
}

bool has_nvls(const Fabric& fabric, Collective collective) {
  return fabric.switched && kNvlsChannels[index(fabric.generation)] > 0 &&
         collective == Collective::kAllReduce && fabric.ranks_per_node() >= kFewestNvlsRanks;
}

/// Returns the bus bandwidth at which a node's adapters are as busy as in a ring at a bus bandwidth
/// of 1, through which all data passes once. What ranks send to each other goes there directly:
/// from all ranks of a node to all of the others, or from all others to the root's node.
double ring_share(const Fabric& fabric, Collective collective) {
  const double inside = fabric.ranks_per_node(), outside = fabric.ranks - inside;
  if (outside == 0) return 1;
  if (collective == Collective::kAllToAll) return (fabric.ranks - 1) / (inside * outside);
  return collective == Collective::kGather ? (fabric.ranks - 1) / outside : 1;
}

/// Returns the bytes per second that data takes at most, as bus bandwidth.
double rate_of(const Fabric& fabric, Collective collective, const Choice& choice,
               const Shares& shares) {
  const auto share = [&](Share which) { return shares[index(which)]; };
  const int ranks = fabric.ranks;
  const double nvls =
      fabric.line_rate * kNvlsEfficiency[index(fabric.generation)] * share(Share::kNvls);
  if (choice.algorithm == Algorithm::kNvls) return nvls;
  // A node sends all data to the other one; with more than two, twice as much in all.
  double across = fabric.network_rate * ring_share(fabric, collective);
  if (fabric.nodes == 2 && choice.algorithm != Algorithm::kRing) {
    const bool slow = fabric.between == LinkClass::kSocket && choice.algorithm == Algorithm::kTree;
    across *= slow ? kTreeOverSockets : 2.0 * (ranks - 1) / ranks;
  }
  if (choice.algorithm == Algorithm::kNvlsTree) {
    return std::min(nvls, across * share(Share::kNetwork));
  }
  const bool volta = fabric.inside == LinkClass::kNvlink && fabric.generation == Generation::kVolta;
  double inside = fabric.line_rate * share(volta ? Share::kVoltaRing : Share::kRing);
  if (fabric.switched) inside *= 1 - std::min(share(Share::kSmallGroup) / (ranks * ranks), 0.9);
  double rate = fabric.nodes == 1 ? inside : std::min(inside, across * share(Share::kNetwork));
  if (choice.protocol == Protocol::kLl) {
    rate *= share(Share::kLlRate) * (choice.algorithm == Algorithm::kTree ? 0.35 : 0.5);
  } else if (choice.protocol == Protocol::kLl128) {
    rate *= share(Share::kLl128Rate) * kRingShareOfBus;
  }
  return rate;
}

}  // namespace

std::vector<Choice> choices(const Fabric& fabric, Collective collective, Bytes bytes) {
  std::vector<Choice> all;
  for (const Protocol protocol : {Protocol::kLl, Protocol::kLl128, Protocol::kSimple}) {
    // LL128 needs stores of 128 bytes that arrive whole, which only NVLink promises.
    if (protocol == Protocol::kLl128 && fabric.inside != LinkClass::kNvlink) continue;
    all.push_back(ring(fabric, collective, bytes, protocol));
    if (collective == Collective::kAllReduce) all.push_back(tree(fabric, bytes, protocol));
  }
  if (has_nvls(fabric, collective)) all.push_back(nvls(fabric, bytes));
  return all;
}

Choice choose(const Fabric& fabric, Collective collective, Bytes bytes) {
  return std::ranges::min(choices(fabric, collective, bytes), {}, &Choice::expected_s);
}

namespace {

// Sources of all constants of steps: NCCL 2.27. A buffer has NCCL_STEPS steps; one of Simple has
// 4 MiB. A line of LL has 8 bytes of data, one of LL128 has NCCL_LL128_DATAELEMS of 8.
constexpr std::uint64_t kStepsOfBuffer = 8;
constexpr Bytes kStep = 4 * kMiB / kStepsOfBuffer;
constexpr Bytes kLlLine = 8, kLl128Line = 120;

/// Returns how many chunks each channel moves.
std::uint64_t chunks(Bytes bytes, Bytes channels, Bytes chunk) {
  return (bytes + channels * chunk - 1) / (channels * chunk);
}

Steps steps_of_transfer(const Fabric& fabric, Bytes bytes, bool only_sends) {
  // NCCL_P2P_LL_THRESHOLD, NCCL_P2P_NVL_CHUNKSIZE; NCCL_P2P_PCI_CHUNKSIZE is that of networks, too.
  constexpr Bytes kMostByLl = 16 * kKiB, kNvlinkChunk = 512 * kKiB, kOtherChunk = 128 * kKiB;
  if (bytes <= kMostByLl) {
    // All that is sent fits into the buffer.
    const std::uint64_t lines = chunks(bytes, 1, kLlLine);
    return {.protocol = Protocol::kLl, .gives = lines, .needs = only_sends ? 0 : lines};
  }
  const bool by_nvlink = fabric.nodes == 1 && fabric.inside == LinkClass::kNvlink;
  const std::uint64_t steps = chunks(bytes, 1, by_nvlink ? kNvlinkChunk : kOtherChunk);
  return {.gives = steps, .needs = only_sends ? steps - std::min(steps, kStepsOfBuffer) : steps};
}

/// Returns how many bytes a channel moves at once.
Bytes chunk_of(const Fabric& fabric, Collective collective, const Choice& choice) {
  if (choice.protocol == Protocol::kLl) return kLlLine;
  if (choice.protocol == Protocol::kLl128) return kLl128Line;
  if (choice.algorithm == Algorithm::kNvls || choice.algorithm == Algorithm::kNvlsTree) {
    return 128 * kKiB;  // NCCL_NVLS_CHUNKSIZE
  }
  // In a ring, 4 steps for each rank (ALLREDUCE_CHUNKSTEPS and its like); of data that are only
  // passed on, and in trees, one.
  const bool passes_on = collective == Collective::kBroadcast ||
                         collective == Collective::kReduce || choice.algorithm == Algorithm::kTree;
  return passes_on ? kStep : 4 * kStep * static_cast<Bytes>(fabric.ranks);
}

}  // namespace

Steps steps_of(const Fabric& fabric, Collective collective, Bytes bytes, bool only_sends) {
  if (collective == Collective::kSendReceive) return steps_of_transfer(fabric, bytes, only_sends);
  const Choice choice = choose(fabric, collective, bytes);
  // A channel needs so many bytes for each of so many threads. By protocol:
  // NCCL_LL_THREAD_THRESHOLD and its like, NCCL_LL_MAX_NTHREADS and its like.
  static constexpr std::array<Bytes, 3> kOfThread = {8, 8, 64}, kThreads = {512, 640, 512};
  const std::size_t protocol = index(choice.protocol);
  const auto most = std::max<Bytes>(static_cast<Bytes>(fabric.channels), 1);
  Steps steps{.algorithm = choice.algorithm, .protocol = choice.protocol};
  steps.channels = std::clamp<Bytes>(bytes / (kOfThread[protocol] * kThreads[protocol]), 1, most);
  if (choice.algorithm == Algorithm::kNvls || choice.algorithm == Algorithm::kNvlsTree) {
    steps.channels = static_cast<Bytes>(kNvlsChannels[index(fabric.generation)]);
  }
  steps.gives = chunks(bytes, steps.channels, chunk_of(fabric, collective, choice));
  steps.needs = steps.gives;
  return steps;
}

double seconds(const Fabric& fabric, Collective collective, Bytes bytes, const Choice& choice,
               const Shares& shares) {
  const auto share = [&](Share which) { return shares[index(which)]; };
  const bool by_nvls =
      choice.algorithm == Algorithm::kNvls || choice.algorithm == Algorithm::kNvlsTree;
  static constexpr std::array kHops = {Share::kLlHops, Share::kLl128Hops, Share::kSimpleHops};
  const Share hops = by_nvls ? Share::kNvlsLatency : kHops[index(choice.protocol)];
  const double latency = share(Share::kBase) * choice.base_s + share(hops) * choice.hops_s;
  const double data = static_cast<double>(bytes) * bus_factor(collective, fabric.ranks) /
                      rate_of(fabric, collective, choice, shares);
  double ramp = 0;
  if (by_nvls) ramp = share(Share::kNvlsRamp);
  if (!by_nvls && (fabric.switched || fabric.nodes > 1)) ramp = share(Share::kRamp);
  return share(Share::kLaunch) * kMicrosecond + latency + data + ramp * std::sqrt(latency * data);
}

CollectiveTime time_of(const Fabric& fabric, Collective collective, Bytes bytes,
                       double line_share) {
  if (fabric.ranks < 2) return {};
  const Choice choice = choose(fabric, collective, bytes);
  const LinkClass link = fabric.slowest();
  Fabric real = fabric;
  real.line_rate *= line_share;
  return {.choice = choice,
          .time = from_seconds(seconds(real, collective, bytes, choice, fitted_shares(link))),
          .relative_bar = bars_of(link)[size_class(bytes)]};
}

double bus_factor(Collective collective, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * others;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
      return others;
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSendReceive:
      break;
  }
  return 1;
}

}  // namespace gpemu::topology
