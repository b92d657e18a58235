// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/profile/generation.hpp"
#include "gpemu/topology/shares.hpp"

namespace gpemu::topology {

/// NCCL's collectives. A send and its receive count as one, and a scatter as a gather.
enum class Collective : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kSendReceive,
  kGather,
};
inline constexpr std::array<std::string_view, 8> kCollectiveNames = {
    "all-reduce", "all-gather", "reduce-scatter", "broadcast",
    "reduce",     "all-to-all", "send-receive",   "gather"};

/// How NCCL moves the data of a collective.
enum class Algorithm : std::uint8_t { kRing, kTree, kNvls, kNvlsTree };
inline constexpr std::array<std::string_view, 4> kAlgorithmNames = {"ring", "tree", "nvls",
                                                                    "nvls-tree"};

/// NCCL's protocols: flags of 4 bytes, of 8 bytes in 128, or separate ones.
enum class Protocol : std::uint8_t { kLl, kLl128, kSimple };
inline constexpr std::array<std::string_view, 3> kProtocolNames = {"LL", "LL128", "Simple"};

/// GPU generations between which NCCL's constants differ.
using Generation = profile::NcclTuning;
inline constexpr const auto& kGenerationNames = profile::kNcclTuningNames;

/// What the GPUs of a communicator are joined by. All nodes have the same number of ranks.
struct Fabric {
  int ranks = 2;
  int nodes = 1;
  Generation generation = Generation::kAmpere;
  LinkClass inside = LinkClass::kNvlink;  ///< within a node; not kRdma or kSocket.
  bool switched = false;                  ///< NVSwitches join the GPUs of a node.
  /// Bytes per second and direction of a GPU's links that rings can use: the links' own rate.
  double line_rate = 0;
  /// The same as NCCL's search for rings adds it up, with the rates that it assumes.
  double searched_rate = 0;
  int channels = 1;                      ///< rings that NCCL runs in parallel.
  LinkClass between = LinkClass::kRdma;  ///< between nodes, if there are several.
  double network_rate = 0;               ///< bytes per second and direction of a node.

  [[nodiscard]] int ranks_per_node() const { return ranks / nodes; }
  /// The kind of link whose parameters apply.
  [[nodiscard]] LinkClass slowest() const { return nodes > 1 ? between : inside; }
};

/// An algorithm and a protocol, and what NCCL's tuner expects of them.
struct Choice {
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  double base_s = 0;      ///< the expected time of the first step,
  double hops_s = 0;      ///< of all further ones,
  double expected_s = 0;  ///< and with the data's.
};

/// Returns what NCCL considers for a collective. `bytes` is nccl-tests' size: the whole buffer, for
/// an all-gather that of the receiver. Source of all constants: NCCL 2.27's src/graph/tuning.cc.
[[nodiscard]] std::vector<Choice> choices(const Fabric& fabric, Collective collective, Bytes bytes);

/// Returns the one that NCCL chooses: the one with the smallest expected time.
[[nodiscard]] Choice choose(const Fabric& fabric, Collective collective, Bytes bytes);

/// What a rank does in a collective, as far as the others notice: they see neither bytes nor types,
/// but steps. So ranks that give different sizes may all end, with results that mean nothing; or
/// those that need fewer steps end, and the others wait for data that never come.
struct Steps {
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  std::uint64_t channels = 1;
  std::uint64_t gives = 0;  ///< on each channel, to its neighbours,
  std::uint64_t needs = 0;  ///< and from them. Less if it only sends: the buffers take some steps.

  bool operator==(const Steps&) const = default;
};

/// Returns the steps of a rank, which is not alone. `only_sends`: the sender of a kSendReceive.
[[nodiscard]] Steps steps_of(const Fabric& fabric, Collective collective, Bytes bytes,
                             bool only_sends = false);

/// Returns the time of a collective on idle GPUs whose ranks all arrive at once, in seconds.
[[nodiscard]] double seconds(const Fabric& fabric, Collective collective, Bytes bytes,
                             const Choice& choice, const Shares& shares);

/// The time of a collective.
struct CollectiveTime {
  Choice choice;
  Duration time{};
  /// 1.0 means: in nine of ten cases the true time is between time / 2 and time x 2. For machines
  /// that were not measured.
  double relative_bar = 0;
};

/// Returns the time of a collective with NCCL's choice and the fitted shares. One rank moves
/// nothing: it takes no time here. `line_share`: what is left of the rate of the links within a
/// node, which NCCL does not know.
[[nodiscard]] CollectiveTime time_of(const Fabric& fabric, Collective collective, Bytes bytes,
                                     double line_share = 1);

/// Returns the factor between algorithm bandwidth (bytes / time) and nccl-tests' bus bandwidth.
[[nodiscard]] double bus_factor(Collective collective, int ranks);

}  // namespace gpemu::topology
