// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "go_random.hpp"
#include "placements/placements.hpp"

namespace gpemu::scheduling {
namespace {

/// Any server on which the demand fits, and any GPU of it of which enough is free.
class RandomFit final : public Placement {
 public:
  explicit RandomFit(std::uint64_t seed) : random_(static_cast<std::int64_t>(seed)) {}

  [[nodiscard]] std::optional<ServerGpus> choose(const FreeResources& free,
                                                 const Demand& demand) override {
    fitting_.clear();
    for (std::uint32_t server = 0; server < free.fleet().servers().size(); ++server) {
      if (free.fits(server, demand)) fitting_.push_back(server);
    }
    if (fitting_.empty()) return std::nullopt;
    const std::uint32_t server = any_of(fitting_);
    if (demand.gpus != 1 || !demand.shares_gpus()) {
      return ServerGpus{.server = server, .gpus = free.tightest_on(server, demand)};
    }
    fitting_.clear();
    for (std::uint32_t gpu = 0; gpu < free.fleet().servers()[server].gpus; ++gpu) {
      if (free.share_of(server, gpu) >= demand.gpu_share) fitting_.push_back(gpu);
    }
    return ServerGpus{.server = server, .gpus = std::uint64_t{1} << any_of(fitting_)};
  }

 private:
  std::uint32_t any_of(const std::vector<std::uint32_t>& all) {
    return all[random_.below(static_cast<std::uint32_t>(all.size()))];
  }

  GoRandom random_;
  std::vector<std::uint32_t> fitting_;
};

}  // namespace

std::unique_ptr<Placement> make_random(const PlacementSettings& settings) {
  return std::make_unique<RandomFit>(settings.seed);
}

}  // namespace gpemu::scheduling
