// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include "gpemu/scheduling/scored_placement.hpp"

#include "placements/placements.hpp"

namespace gpemu::scheduling {
namespace {

/// Jobs with the same number of GPUs, or with shares of one, come together. First servers that have
/// only such ones, then those that have others, too, then those without any, then the rest; of
/// these the fullest. Source: pkg/simulator/plugin/gpu_clustering_score.go of
/// github.com/hkust-adsl/kubernetes-scheduler-simulator.
class GpuClustering final : public ScoredPlacement {
  [[nodiscard]] std::int32_t score(const FreeResources& free, std::uint32_t server,
                                   const Demand& demand) override {
    if (demand.gpus == 0) return 0;
    constexpr std::int32_t kStep = kMostScore / 4;
    const auto free_shares = static_cast<std::int32_t>(room_on(free, server).free_shares());
    const std::int32_t full = std::max(kStep * (kSpecShares - free_shares) / kSpecShares, 0);
    const std::span<const std::uint16_t> takers = free.takers_on(server);
    const auto classes = std::ranges::count_if(takers, [](std::uint16_t n) { return n != 0; });
    if (takers[demand.shares_gpus() ? 0 : demand.gpus] != 0) {
      return full + (classes == 1 ? 3 : 2) * kStep;
    }
    return full + (classes == 0 ? 1 : 0) * kStep;
  }
};

}  // namespace

std::unique_ptr<Placement> make_gpu_clustering(const PlacementSettings& /*settings*/) {
  return std::make_unique<GpuClustering>();
}

}  // namespace gpemu::scheduling
