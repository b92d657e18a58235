// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "gpemu/scheduling/scored_placement.hpp"

#include "placements/placements.hpp"

namespace gpemu::scheduling {
namespace {

/// The server that has the least left: cores and GPUs, each as a part of the largest server's,
/// count the same. Source: pkg/simulator/plugin/best_fit_score.go of
/// github.com/hkust-adsl/kubernetes-scheduler-simulator.
class BestFit final : public ScoredPlacement {
  [[nodiscard]] std::int32_t score(const FreeResources& free, std::uint32_t server,
                                   const Demand& demand) override {
    const ServerRoom room = room_on(free, server);
    const auto cores = static_cast<double>(room.millicores - demand.host.millicores);
    const auto gpus = static_cast<double>(room.free_shares() - demand.gpus * demand.gpu_share);
    const double left = cores / kSpecMillicores * 0.5 + gpus / kSpecShares * 0.5;
    // Servers larger than the largest known one are all the same.
    return static_cast<std::int32_t>(std::max((1 - left) * kMostScore, 0.0));
  }
};

}  // namespace

std::unique_ptr<Placement> make_best_fit(const PlacementSettings& /*settings*/) {
  return std::make_unique<BestFit>();
}

}  // namespace gpemu::scheduling
