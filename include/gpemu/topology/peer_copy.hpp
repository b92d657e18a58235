// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/units.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/topology/shares.hpp"

namespace gpemu::topology {

/// What copies between two GPUs of a kind cross.
struct PeerPath {
  /// A link within a node: NVLink, PCIe with peer access, or PCIe to and from the host's memory.
  LinkClass link = LinkClass::kPcieStaged;
  double line_rate = 0;           ///< raw rate of the slowest part, bytes per second and direction.
  bool across_sockets = false;    ///< over PCIe: from one processor to another.
  bool below_one_switch = false;  ///< staged: up and down again through the same PCIe switch.

  /// Whether the GPUs can use each other's memory.
  [[nodiscard]] bool gives_access() const { return link != LinkClass::kPcieStaged; }
};

/// Returns the path over a kind of link, all of which the specification has.
[[nodiscard]] PeerPath peer_path(const profile::GpuSpec& gpu, LinkClass link);

/// Returns the path between two GPUs of a node for which no machine is described: NVLink joins GPUs
/// that lie next to each other, `nvlink_gpus` of them; the others reach each other over PCIe, but
/// for GeForce.
///
/// Source: RTX 3090 (github.com/NVIDIA/nccl/issues/1127); RTX 4090
/// (github.com/tinygrad/open-gpu-kernel-modules/issues/6).
[[nodiscard]] PeerPath peer_path(const profile::GpuSpec& gpu, int first, int second);

/// Returns the path between two GPUs of a machine. GPUs without an NVLink between them have no
/// access over PCIe if they are GeForce, nor from one Intel processor to another.
///
/// Source: K40m (github.com/tensorflow/tensorflow/issues/2145) and GTX 1080 Ti
/// (server-gear.com/shop/index.php/blog/10x1080ti-smi-query), each below two Intel processors; A40
/// and RTX PRO 6000 below two of AMD's have access (the measurements in peer_copy_test.cpp).
[[nodiscard]] PeerPath peer_path(const profile::TopologySpec& machine, const profile::GpuSpec& gpu,
                                 int first, int second);

/// What a copy from one GPU's memory to another's takes: `latency` and bytes / `rate`.
struct PeerCopy {
  Duration latency{};  ///< of one of many small copies that follow each other.
  double rate = 0;     ///< bytes per second, one way, with nothing else on the links.
};

[[nodiscard]] PeerCopy peer_copy(const profile::GpuSpec& gpu, const PeerPath& path);

/// Returns the rate of large copies between pinned memory and a GPU of a machine, bytes per second:
/// the specification's, or less below a slower link.
[[nodiscard]] double host_copy_rate(const profile::TopologySpec& machine,
                                    const profile::GpuSpec& gpu, int index);

/// Returns the raw rate of a PCIe link, bytes per second and direction.
[[nodiscard]] double pcie_line_rate(const profile::PcieLink& link);

/// What is left of the rate over PCIe between GPUs below two sockets, if both directions are used
/// at once, as by rings. Source: 41.0 of 50.2 GB/s (4 A40, NVIDIA/nccl-tests, issue 74) and 41.3
/// of 50.3 (RTX 4090 with peer access).
inline constexpr double kAcrossSockets = 0.82;

/// Returns that of a GPU's own link.
[[nodiscard]] double pcie_line_rate(const profile::GpuSpec& gpu);

/// Whether the driver lets GPUs of a kind reach each other's memory over PCIe: not on GeForce,
/// since the RTX 20 series.
[[nodiscard]] bool has_pcie_peers(const profile::GpuSpec& gpu);

/// The same on a machine, whose driver may be one that lets all GPUs do so.
[[nodiscard]] bool has_pcie_peers(const profile::TopologySpec& machine,
                                  const profile::GpuSpec& gpu);

}  // namespace gpemu::topology
