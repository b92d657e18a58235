// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>

#include "gpemu/scheduling/placement.hpp"

#include "placements/placements.hpp"

namespace gpemu::scheduling {
namespace {

constexpr auto kPlacements = std::to_array<PlacementEntry>({
    {"best-fit", "the server that has the least left", make_best_fit},
    {"dot-product", "the server whose free resources, times the demand, have the smallest sum",
     make_dot_product},
    {"fgd", "where the fragmentation grows the least (fragmentation gradient descent)", make_fgd},
    {"gpu-clustering", "together with jobs that have as many GPUs", make_gpu_clustering},
    {"gpu-packing", "first shared GPUs, then servers that are in use", make_gpu_packing},
    {"random", "any server", make_random},
});

}  // namespace

std::span<const PlacementEntry> placements() {
  return kPlacements;
}

Result<const PlacementEntry*> find_placement(std::string_view name) {
  const auto* const found = std::ranges::find(kPlacements, name, &PlacementEntry::name);
  if (found != kPlacements.end()) return found;
  std::string names;
  for (const PlacementEntry& placement : kPlacements) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", placement.name);
  }
  return fail(ErrorCode::kNotFound, "there is no placement {}; there are {}", name, names);
}

}  // namespace gpemu::scheduling
