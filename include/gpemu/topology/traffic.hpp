// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/units.hpp"
#include "gpemu/topology/collective.hpp"

namespace gpemu::topology {

/// What one computer sends to the next one during a collective whose computers form a ring.
struct Traffic {
  Bytes sent = 0;  ///< all that it sends, with the flags of NCCL's protocol.
  Bytes own = 0;   ///< so much of it before anything has come; the rest passes on what has come.

  bool operator==(const Traffic&) const = default;
};

/// Where a computer is in the ring, and where the root is. Both count from 0; ranks follow each
/// other in the ring within a computer.
struct RingPlace {
  int computer = 0;
  int root_computer = 0;
  int root_rank = 0;  ///< the root's place among the ranks of its computer.
};

/// Returns what a computer sends to the next one. `bytes` is nccl-tests' size, as for choices();
/// `choice` is NCCL's.
///
/// Rings send what NCCL's rings send between two computers. Trees send, on average over the
/// computers, what NCCL's double binary trees send, in as many steps one after the other: between
/// two computers that is exact. An all-to-all sends all to the next computer, which loads the
/// links of all computers as if each part went to its own. Requires: several computers.
[[nodiscard]] Traffic traffic_of(const Fabric& fabric, Collective collective, Bytes bytes,
                                 const Choice& choice, const RingPlace& place);

/// The same for a gather and a scatter, which pass from computer to computer: the root's link
/// carries what it carries with NCCL, those between others carry more. `bytes`: of the root's
/// buffer.
[[nodiscard]] Traffic traffic_of_gather(const Fabric& fabric, Bytes bytes, const RingPlace& place);
[[nodiscard]] Traffic traffic_of_scatter(const Fabric& fabric, Bytes bytes, const RingPlace& place);

/// Returns how long a collective takes apart from what the network's rate adds: what time_of() says
/// of a network of any rate, for the choice that NCCL makes for this one.
[[nodiscard]] Duration time_beside_network(const Fabric& fabric, Collective collective, Bytes bytes,
                                           const Choice& choice);

}  // namespace gpemu::topology
