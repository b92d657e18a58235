// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <prometheus/metric_family.h>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "gpemu/containers/pool_monitor.hpp"

namespace gpemu::tools {

/// What a GPU had done before a container got it: it is no part of the container's sums.
struct DoneBefore {
  Duration busy{};
  Bytes received = 0, sent = 0, over_nvlinks = 0;
};

/// A container that has a GPU, or a replica of one.
struct GpuHolder {
  std::string name_space, pod, container;
  int tenant = 0;  ///< of those that share the GPU, as device::ComputeShare has it; 0: not known.
  DoneBefore before;
};

/// Who has which GPU, by its number on the machine.
using GpuHolders = std::multimap<std::size_t, GpuHolder>;

/// Knows from when on containers have their GPUs. Thread safety: none.
class HolderSums {
 public:
  /// Sets `before` of all holders. Those that are new have done nothing until the last call.
  void look(std::span<const containers::GpuUse> gpus, GpuHolders& holders);

 private:
  using Key = std::tuple<std::size_t, int, std::string, std::string, std::string>;
  std::vector<containers::GpuUse> last_;
  std::map<Key, DoneBefore> known_;
};

/// Returns what Prometheus is told of GPUs: the metrics of NVIDIA's DCGM exporter, with their
/// names, labels and units, as far as an emulated GPU has them, and sums of gpemu's own. A GPU has
/// its series for each container that has it; what can be told apart is then the container's own.
/// `host`: the machine's name.
[[nodiscard]] std::vector<prometheus::MetricFamily> gpu_metrics(
    std::span<const containers::GpuUse> gpus, const GpuHolders& holders, const std::string& host);

}  // namespace gpemu::tools
