// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpemu/base/units.hpp"

namespace gpemu::topology {

/// The slowest kind of link that a collective crosses. Each kind has parameters of its own.
enum class LinkClass : std::uint8_t {
  kNvlink,
  kPciePeer,    ///< GPUs write to each other over PCIe.
  kPcieStaged,  ///< GPUs exchange data through the host's memory.
  kRdma,        ///< between nodes: InfiniBand or RoCE.
  kSocket,      ///< between nodes: TCP, or a provider's own transport.
};
inline constexpr std::array<std::string_view, 5> kLinkClassNames = {
    "nvlink", "pcie-peer", "pcie-staged", "rdma", "socket"};

/// What is fitted to measurements. NCCL's own constants rank its algorithms, but do not give their
/// times. Each is a factor or a share, and positive.
enum class Share : std::uint8_t {
  kRing,         ///< of the line rate that a ring or a tree reaches,
  kVoltaRing,    ///< on Volta and before,
  kNvls,         ///< with NVLS,
  kNetwork,      ///< and of the network's rate.
  kSmallGroup,   ///< what a ring through NVSwitches loses, times 1 / ranks^2.
  kLlRate,       ///< of a ring's rate that LL reaches, relative to a half,
  kLl128Rate,    ///< and LL128, relative to 0.92.
  kBase,         ///< of NCCL's expected time of the first step,
  kLlHops,       ///< and of the further steps, with LL,
  kLl128Hops,    ///< with LL128,
  kSimpleHops,   ///< with Simple,
  kNvlsLatency,  ///< and with NVLS.
  kRamp,         ///< time to reach the full rate through NVSwitches or a network,
  kNvlsRamp,     ///< and with NVLS, relative to sqrt(latency x data's time).
  kLaunch,       ///< what else each collective takes, in microseconds.
};
inline constexpr std::size_t kShares = 15;
using Shares = std::array<double, kShares>;

/// Returns the fitted shares for a kind of link.
[[nodiscard]] const Shares& fitted_shares(LinkClass link);

/// Returns the error bars, as in CollectiveTime, for up to 64 KiB, up to 256 MiB, and above.
[[nodiscard]] const std::array<double, 3>& bars_of(LinkClass link);

/// Returns the index of a size in bars_of().
[[nodiscard]] constexpr std::size_t size_class(Bytes bytes) {
  return bytes <= 64 * kKiB ? 0 : bytes < 256 * kMiB ? 1 : 2;
}

}  // namespace gpemu::topology
