// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "gpemu/scheduling/scored_placement.hpp"

#include "placements/placements.hpp"

namespace gpemu::scheduling {
namespace {

/// The server whose free cores and GPUs, times those of the demand, have the smallest sum; each as
/// a part of the largest server's. Source: pkg/simulator/plugin/dot_product_score.go of
/// github.com/hkust-adsl/kubernetes-scheduler-simulator, where FGD's authors turned the order of
/// Tetris (SIGCOMM'14) round; GPUs are merged into one dimension.
class DotProduct final : public ScoredPlacement {
  [[nodiscard]] std::int32_t score(const FreeResources& free, std::uint32_t server,
                                   const Demand& demand) override {
    const ServerRoom room = room_on(free, server);
    const auto asked_cores = static_cast<double>(demand.host.millicores);
    const auto asked_gpus = static_cast<double>(demand.gpus * demand.gpu_share);
    double sum =
        static_cast<double>(room.millicores) / kSpecMillicores * (asked_cores / kSpecMillicores);
    sum += static_cast<double>(room.free_shares()) / kSpecShares * (asked_gpus / kSpecShares);
    constexpr int kDimensions = 2;
    return static_cast<std::int32_t>(std::max(kMostScore * (1 - sum / kDimensions), 0.0));
  }
};

}  // namespace

std::unique_ptr<Placement> make_dot_product(const PlacementSettings& /*settings*/) {
  return std::make_unique<DotProduct>();
}

}  // namespace gpemu::scheduling
