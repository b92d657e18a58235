// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <prometheus/metric_family.h>
#include <span>
#include <string>
#include <vector>

#include "gpemu/containers/pool_monitor.hpp"

namespace gpemu::tools {

/// A container that has a GPU, or a replica of one.
struct GpuHolder {
  std::string name_space, pod, container;
  int tenant = 0;  ///< of those that share the GPU, as device::ComputeShare has it; 0: not known.
};

/// Who has which GPU, by its number on the machine.
using GpuHolders = std::multimap<std::size_t, GpuHolder>;

/// Returns what Prometheus is told of GPUs: the metrics of NVIDIA's DCGM exporter, with their
/// names, labels and units, as far as an emulated GPU has them, and sums of gpemu's own. A GPU has
/// its series for each container that has it; what can be told apart is then the container's own.
/// `host`: the machine's name.
[[nodiscard]] std::vector<prometheus::MetricFamily> gpu_metrics(
    std::span<const containers::GpuUse> gpus, const GpuHolders& holders, const std::string& host);

}  // namespace gpemu::tools
