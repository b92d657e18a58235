// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/fragmentation.hpp"

namespace gpemu::scheduling {

/// Decides where a demand goes, given what is free. Which job is next is not its concern.
///
/// It may remember what it calculated; that does not change what it chooses. Only a placement that
/// draws random numbers may choose differently when asked again. Thread safety: none; an object
/// serves one fleet.
class Placement {
 public:
  Placement() = default;
  virtual ~Placement() = default;
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  /// Returns a server that has all of the demand, and the GPUs there; nothing if no server has.
  /// Takes nothing. Requires: `free` has Tracking::kServers.
  [[nodiscard]] virtual std::optional<ServerGpus> choose(const FreeResources& free,
                                                         const Demand& demand) = 0;
};

/// What placements are made of.
struct PlacementSettings {
  std::span<const TypicalDemand> typical;  ///< what is expected to come.
  std::uint64_t seed = 0;                  ///< of those that draw random numbers.
};

/// A placement that commands know.
struct PlacementEntry {
  std::string_view name;     ///< e.g. "best-fit".
  std::string_view meaning;  ///< in one line, for lists.
  std::unique_ptr<Placement> (*make)(const PlacementSettings& settings);
};

/// Returns all placements, by name.
[[nodiscard]] std::span<const PlacementEntry> placements();

/// Returns the placement of this name.
///
/// Errors: kNotFound with the names that there are.
[[nodiscard]] Result<const PlacementEntry*> find_placement(std::string_view name);

}  // namespace gpemu::scheduling
