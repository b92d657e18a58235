// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/traffic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "gpemu/topology/shares.hpp"

namespace gpemu::topology {
namespace {

/// What a protocol sends for each byte of data: LL 4 bytes of flag with 4 of data, LL128 8 bytes in
/// 128. Source: NCCL 2.27's src/include/device.h.
double sent_per_byte(Protocol protocol) {
  switch (protocol) {
    case Protocol::kLl:
      return 2.0;
    case Protocol::kLl128:
      return 128.0 / 120;
    case Protocol::kSimple:
      break;
  }
  return 1.0;
}

Bytes whole(double bytes) {
  return static_cast<Bytes>(std::llround(bytes));
}

/// Returns how many computers further on a computer is than the root.
int steps_from_root(const Fabric& fabric, const RingPlace& place) {
  return (place.computer - place.root_computer + fabric.nodes) % fabric.nodes;
}

/// Returns the data that a chain from one rank to the one before it moves between a computer and
/// the next one. `first`: of the computer with the first rank; `crosses_all`: the last rank is on
/// that computer, too.
Traffic chain(double data, bool is_first, bool is_last, bool crosses_all) {
  if (is_last && !crosses_all) return {};
  return {.sent = whole(data), .own = is_first ? whole(data) : 0};
}

/// Returns what a broadcast sends: from the root to the rank before it in the ring.
Traffic broadcast(const Fabric& fabric, double data, const RingPlace& place) {
  const int steps = steps_from_root(fabric, place);
  return chain(data, steps == 0, steps == fabric.nodes - 1, place.root_rank > 0);
}

/// Returns what a reduction sends: from the rank after the root to the root.
Traffic reduction(const Fabric& fabric, double data, const RingPlace& place) {
  const int steps = steps_from_root(fabric, place);
  const bool begins_at_root = place.root_rank < fabric.ranks_per_node() - 1;
  return chain(data, steps == (begins_at_root ? 0 : 1), steps == 0, begins_at_root);
}

}  // namespace

Traffic traffic_of(const Fabric& fabric, Collective collective, Bytes bytes, const Choice& choice,
                   const RingPlace& place) {
  const double data = static_cast<double>(bytes) * sent_per_byte(choice.protocol);
  const double ranks = fabric.ranks, computers = fabric.nodes;
  const double inside = fabric.ranks_per_node();
  switch (collective) {
    case Collective::kAllReduce:
      if (choice.algorithm != Algorithm::kRing) {
        // Up the tree and down again, in both trees at once.
        const double sent = data * 2 * (computers - 1) / computers;
        const int steps = 2 * (std::bit_width(static_cast<unsigned>(fabric.nodes)) - 1);
        return {.sent = whole(sent), .own = whole(sent / steps)};
      }
      return {.sent = whole(data * 2 * (ranks - 1) / ranks), .own = whole(data * inside / ranks)};
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return {.sent = whole(data * (ranks - 1) / ranks), .own = whole(data * inside / ranks)};
    case Collective::kBroadcast:
      return broadcast(fabric, data, place);
    case Collective::kReduce:
      return reduction(fabric, data, place);
    case Collective::kAllToAll: {
      const Bytes sent = whole(data / ranks * inside * (ranks - inside));
      return {.sent = sent, .own = sent};
    }
    case Collective::kGather:
      return traffic_of_gather(fabric, whole(data), place);
    case Collective::kSendReceive:
      break;
  }
  // The root sends to the other.
  const Bytes sent = place.computer == place.root_computer ? whole(data) : 0;
  return {.sent = sent, .own = sent};
}

Traffic traffic_of_gather(const Fabric& fabric, Bytes bytes, const RingPlace& place) {
  const double share = static_cast<double>(bytes) / fabric.nodes;
  const int steps = steps_from_root(fabric, place);
  return {.sent = whole(share * steps), .own = steps == 0 ? 0 : whole(share)};
}

Traffic traffic_of_scatter(const Fabric& fabric, Bytes bytes, const RingPlace& place) {
  const double share = static_cast<double>(bytes) / fabric.nodes;
  const int steps = steps_from_root(fabric, place);
  const Bytes sent = whole(share * (fabric.nodes - 1 - steps));
  return {.sent = sent, .own = steps == 0 ? sent : 0};
}

Duration time_beside_network(const Fabric& fabric, Collective collective, Bytes bytes,
                             const Choice& choice) {
  Fabric fast = fabric;
  fast.network_rate = std::numeric_limits<double>::infinity();
  return from_seconds(seconds(fast, collective, bytes, choice, fitted_shares(fabric.slowest())));
}

}  // namespace gpemu::topology
