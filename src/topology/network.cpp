// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/network.hpp"

#include <array>
#include <charconv>
#include <string>
#include <utility>

namespace gpemu::topology {

Result<double> parse_bit_rate(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 3> kUnits = {
      {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}}};
  constexpr double kLeast = 1e3, kMost = 1e15;  // bits per second
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [unit, factor] : kUnits) {
    const double bits_per_s = number * factor;
    if (error == std::errc() && rest == unit && bits_per_s >= kLeast && bits_per_s <= kMost) {
      return bits_per_s / 8;
    }
  }
  return fail(ErrorCode::kInvalidArgument,
              "\"{}\" is not a rate: give a number with kbit, mbit or gbit, from 1kbit to "
              "1000000gbit, e.g. 10gbit",
              text);
}

Result<Network> parse_network(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  if (colon == std::string_view::npos || (kind != "rdma" && kind != "tcp" && kind != "real")) {
    return fail(ErrorCode::kInvalidArgument,
                "\"{}\" is not a network: give rdma:RATE, tcp:RATE or real:RATE, e.g. "
                "rdma:200gbit",
                text);
  }
  GPEMU_ASSIGN(const double rate, parse_bit_rate(text.substr(colon + 1)));
  return Network{.kind = kind == "rdma" ? LinkClass::kRdma : LinkClass::kSocket,
                 .bytes_per_s = rate,
                 .is_real = kind == "real"};
}

Fabric across(Fabric computer, int computers, const Network& network) {
  computer.ranks *= computers;
  computer.nodes = computers;
  computer.between = network.kind;
  computer.network_rate = network.bytes_per_s;
  return computer;
}

}  // namespace gpemu::topology
