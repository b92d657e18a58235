// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/collective.hpp"

namespace gpemu::cost {
namespace {

/// The link of a ring.
struct Link {
  double bytes_per_s;
  double hop_seconds;
  double relative_error;
};

// Start-up of a call and time of one hop, ring algorithm, protocol Simple, from NCCL's own model of
// its speed (baseLat, hwLat). Source: NCCL 2.19, src/graph/tuning.cc.
constexpr double kStartSeconds = 8.4e-6;
constexpr double kNvlinkHopSeconds = 3.4e-6;
constexpr double kPcieHopSeconds = 5.7e-6;

// Share of the raw rate that copies between peers reach: 380 of 450 GB/s on H100 SXM5
// (github.com/NVIDIA/nccl/issues/1264). The error spans other reports over NVLink: 0.72
// (github.com/NVIDIA/nccl-tests/issues/331) to 0.93 (github.com/EESSI/software-layer/pull/716).
constexpr double kNvlinkEfficiency = 0.84;
constexpr double kNvlinkError = 0.15;

// Without peer access a copy is staged in host memory: 12.9 of 25.6 GB/s per direction on RTX 4090
// (github.com/tinygrad/open-gpu-kernel-modules/issues/6).
constexpr double kPcieError = 0.5;

Link ring_link(const profile::GpuSpec& gpu, int ranks) {
  if (gpu.nvlink_bytes_per_s && ranks <= gpu.nvlink_gpus) {
    return {*gpu.nvlink_bytes_per_s * kNvlinkEfficiency, kNvlinkHopSeconds, kNvlinkError};
  }
  return {gpu.pinned_copy_bytes_per_s, kPcieHopSeconds, kPcieError};
}

}  // namespace

Estimate all_reduce_time(const profile::GpuSpec& gpu, Bytes bytes, int ranks) {
  GPEMU_CHECK(ranks >= 1, "an all-reduce needs at least one rank");
  if (ranks == 1) return {.evidence = Evidence::kAnalytic};
  const Link link = ring_link(gpu, ranks);
  const double hops = 2.0 * (ranks - 1);
  const double seconds = kStartSeconds + hops * link.hop_seconds +
                         hops / ranks * static_cast<double>(bytes) / link.bytes_per_s;
  return {from_seconds(seconds), Evidence::kAnalytic, link.relative_error};
}

}  // namespace gpemu::cost
