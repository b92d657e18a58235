// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "gpemu/scheduling/scored_placement.hpp"

#include "placements/placements.hpp"

namespace gpemu::scheduling {
namespace {

/// Fragmentation gradient descent (ATC'23): the server, and the GPU if the demand is a share of
/// one, where the fragmentation grows the least. Source: pkg/simulator/plugin/fgd_score.go of
/// github.com/hkust-adsl/kubernetes-scheduler-simulator.
class Fgd final : public ScoredPlacement {
 public:
  explicit Fgd(std::span<const TypicalDemand> typical) : fragmentation_(typical) {}

 private:
  struct Best {
    std::int32_t score = -1;
    std::uint64_t gpus = 0;
  };

  [[nodiscard]] std::int32_t score(const FreeResources& free, std::uint32_t server,
                                   const Demand& demand) override {
    return best(free, server, demand).score;
  }
  [[nodiscard]] std::uint64_t gpus_on(const FreeResources& free, std::uint32_t server,
                                      const Demand& demand) override {
    return best(free, server, demand).gpus;
  }

  [[nodiscard]] Best best(const FreeResources& free, std::uint32_t server, const Demand& demand);
  /// Returns the score of a server whose fragmentation changes by so many thousandths of a GPU.
  static std::int32_t score_of(double growth);
  /// Returns what the fragmentation of the server is now.
  double now(const FreeResources& free, std::uint32_t server, const ServerRoom& room);

  struct Known {
    std::uint64_t version = 0;
    double fragmentation = 0;
  };
  Fragmentation fragmentation_;
  std::vector<Known> known_;  ///< by server.
};

double Fgd::now(const FreeResources& free, std::uint32_t server, const ServerRoom& room) {
  known_.resize(free.fleet().servers().size());
  Known& known = known_[server];
  if (known.version != free.version_of(server)) {
    known = {.version = free.version_of(server), .fragmentation = fragmentation_.of(room)};
  }
  return known.fragmentation;
}

std::int32_t Fgd::score_of(double growth) {
  return static_cast<std::int32_t>(1 / (1 + std::exp(growth / kWholeGpu)) * kMostScore);
}

Fgd::Best Fgd::best(const FreeResources& free, std::uint32_t server, const Demand& demand) {
  ServerRoom room = room_on(free, server);
  const double before = now(free, server, room);
  room.millicores -= demand.host.millicores;
  if (demand.gpus != 1 || !demand.shares_gpus()) {
    const std::uint64_t gpus = free.tightest_on(server, demand);
    for (std::uint64_t rest = gpus; rest != 0; rest &= rest - 1) {
      room.shares[std::countr_zero(rest)] -= static_cast<std::uint16_t>(demand.gpu_share);
    }
    return {.score = score_of(fragmentation_.of(room) - before), .gpus = gpus};
  }
  Best best;
  for (std::uint32_t gpu = 0; gpu < room.gpus; ++gpu) {
    const std::uint16_t share = room.shares[gpu];
    if (share < demand.gpu_share) continue;
    // GPUs of which as much is free give the same, and the first of them is taken.
    const auto before_it = std::span(room.shares).first(gpu);
    if (std::ranges::find(before_it, share) != before_it.end()) continue;
    room.shares[gpu] = static_cast<std::uint16_t>(share - demand.gpu_share);
    const std::int32_t score = score_of(fragmentation_.of(room) - before);
    room.shares[gpu] = share;
    if (score > best.score) best = {.score = score, .gpus = std::uint64_t{1} << gpu};
  }
  return best;
}

}  // namespace

std::unique_ptr<Placement> make_fgd(const PlacementSettings& settings) {
  return std::make_unique<Fgd>(settings.typical);
}

}  // namespace gpemu::scheduling
