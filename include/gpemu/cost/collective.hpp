// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/error.hpp"
#include "gpemu/cost/estimate.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::cost {

/// Returns the time of an all-reduce of `bytes` over `ranks` GPUs of one node, by the ring
/// algorithm: start-up + 2 (n - 1) * latency + 2 (n - 1) / n * bytes / link rate. The link is
/// NVLink where it joins all ranks, else the PCIe link at the rate of pinned copies. Source:
/// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC
/// 2009.
///
/// Requires: ranks >= 1. One rank takes no time.
[[nodiscard]] Estimate all_reduce_time(const profile::GpuSpec& gpu, Bytes bytes, int ranks);

}  // namespace gpemu::cost
