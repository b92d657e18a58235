// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/scheduling/placement.hpp"

// For tests: shows where a placement puts demands that come one after the other.
namespace gpemu::scheduling {

/// A server and its GPUs, in order; a server below 0: the demand fits nowhere.
using Place = std::pair<int, std::vector<int>>;
inline const Place kNowhere{-1, {}};

inline Server server_of(std::uint32_t gpus, std::uint64_t cores) {
  return {.name = "server",
          .gpu = "A10",
          .gpus = gpus,
          .host = {.millicores = cores * 1000, .memory_mib = kUnlimited}};
}

inline Demand share_of_gpu(std::uint32_t thousandths, std::uint64_t cores = 0) {
  return {.gpus = 1, .gpu_share = thousandths, .host = {.millicores = cores * 1000}};
}

inline Demand whole_gpus(std::uint32_t gpus, std::uint64_t cores = 0) {
  return {.gpus = gpus, .host = {.millicores = cores * 1000}};
}

inline Place place_of(const std::optional<ServerGpus>& chosen) {
  if (!chosen) return kNowhere;
  Place place{static_cast<int>(chosen->server), {}};
  for (int gpu = 0; gpu < 64; ++gpu) {
    if ((chosen->gpus >> static_cast<unsigned>(gpu) & 1U) != 0) place.second.push_back(gpu);
  }
  return place;
}

/// Returns where the placement puts the demands. None is given back.
inline std::vector<Place> places_by(std::string_view placement, std::vector<Server> servers,
                                    const std::vector<Demand>& demands,
                                    const PlacementSettings& settings = {}) {
  const Fleet fleet = Fleet::create(std::move(servers)).value();
  FreeResources free(fleet, Tracking::kServers);
  const auto made = find_placement(placement).value()->make(settings);
  std::vector<Place> places;
  for (const Demand& demand : demands) {
    const std::optional<ServerGpus> chosen = made->choose(free, demand);
    places.push_back(place_of(chosen));
    if (!chosen) continue;
    GpuSet gpus;
    gpus.add(*chosen);
    GPEMU_CHECK(free.take(gpus, demand), "a placement chose what is not free");
  }
  return places;
}

}  // namespace gpemu::scheduling
