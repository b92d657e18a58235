// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/topology/collective.hpp"
#include "gpemu/topology/shares.hpp"

namespace gpemu::topology {

/// What joins the computers of a cluster.
struct Network {
  LinkClass kind = LinkClass::kRdma;  ///< or kSocket.
  double bytes_per_s = 0;             ///< of one computer, in each direction.
  /// Whether bytes of collectives go over the computers' own network. NCCL uses sockets then, and
  /// takes the network to have that rate.
  bool is_real = false;
};

/// Reads "rdma:RATE" (InfiniBand, RoCE), "tcp:RATE" or "real:RATE". The rate is one of
/// parse_bit_rate().
///
/// Errors: kInvalidArgument.
[[nodiscard]] Result<Network> parse_network(std::string_view text);

/// Reads a rate as tc(8) writes it: a number with kbit, mbit or gbit, powers of 1,000 bits per
/// second, from 1kbit to 1000000gbit. Returns bytes per second.
///
/// Errors: kInvalidArgument.
[[nodiscard]] Result<double> parse_bit_rate(std::string_view text);

/// Describes what joins the GPUs of several equal computers. `computer`: what joins those of one.
[[nodiscard]] Fabric across(Fabric computer, int computers, const Network& network);

}  // namespace gpemu::topology
