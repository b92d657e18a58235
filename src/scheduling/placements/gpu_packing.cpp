// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "gpemu/scheduling/scored_placement.hpp"

#include "placements/placements.hpp"

namespace gpemu::scheduling {
namespace {

/// First GPUs that others share, the fullest; then whole GPUs of servers on which some are taken,
/// as few as possible; then those of other servers, the smallest. Source:
/// pkg/simulator/plugin/gpu_packing_score.go of
/// github.com/hkust-adsl/kubernetes-scheduler-simulator.
class GpuPacking final : public ScoredPlacement {
  [[nodiscard]] std::int32_t score(const FreeResources& free, std::uint32_t server,
                                   const Demand& demand) override {
    if (demand.gpus == 0) return 0;
    const auto whole = static_cast<std::int32_t>(std::popcount(free.on(server)));
    if (free.on(server) == free.fleet().servers()[server].all_gpus()) {
      return std::max(kMostScore / 3 - whole, whole);
    }
    const std::uint64_t chosen = free.tightest_on(server, demand);
    const std::int32_t broken = std::popcount(chosen & free.on(server));
    if (broken > 0) return std::max(kMostScore / 2 - broken, kMostScore / 3);
    std::int32_t free_percent = 0;
    for (std::uint64_t rest = chosen; rest != 0; rest &= rest - 1) {
      const auto gpu = static_cast<std::uint32_t>(std::countr_zero(rest));
      free_percent += static_cast<std::int32_t>(free.share_of(server, gpu) * 100 / kWholeGpu);
    }
    return std::max(kMostScore - free_percent / 10, kMostScore / 2);
  }
};

}  // namespace

std::unique_ptr<Placement> make_gpu_packing(const PlacementSettings& /*settings*/) {
  return std::make_unique<GpuPacking>();
}

}  // namespace gpemu::scheduling
