// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/scored_placement.hpp"

#include <algorithm>

namespace gpemu::scheduling {
namespace {

constexpr std::int32_t kDoesNotFit = -1;

}  // namespace

std::uint64_t ScoredPlacement::gpus_on(const FreeResources& free, std::uint32_t server,
                                       const Demand& demand) {
  return free.tightest_on(server, demand);
}

void ScoredPlacement::renew(const FreeResources& free, const Demand& demand, Known& known) {
  const std::size_t servers = free.fleet().servers().size();
  known.versions.resize(servers);
  known.scores.resize(servers, kDoesNotFit);
  for (std::uint32_t server = 0; server < servers; ++server) {
    const std::uint64_t version = free.version_of(server);
    if (known.versions[server] == version) continue;
    known.versions[server] = version;
    known.scores[server] = free.fits(server, demand) ? score(free, server, demand) : kDoesNotFit;
  }
}

std::optional<ServerGpus> ScoredPlacement::choose(const FreeResources& free, const Demand& demand) {
  Known& known = known_[demand];
  renew(free, demand, known);
  const auto best = std::ranges::max_element(known.scores);
  if (best == known.scores.end() || *best == kDoesNotFit) return std::nullopt;
  const auto server = static_cast<std::uint32_t>(best - known.scores.begin());
  return ServerGpus{.server = server, .gpus = gpus_on(free, server, demand)};
}

}  // namespace gpemu::scheduling
