// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "gpemu/scheduling/placement.hpp"

namespace gpemu::scheduling {

/// A placement that gives each server on which a demand fits a whole number, and takes the first
/// one with the greatest. Most placements are made of this.
///
/// It keeps the scores of each demand, and asks only for those of servers that have changed.
class ScoredPlacement : public Placement {
 public:
  [[nodiscard]] std::optional<ServerGpus> choose(const FreeResources& free,
                                                 const Demand& demand) final;

 private:
  /// Returns the score of a server, 0 or more. Requires: the demand fits on it.
  [[nodiscard]] virtual std::int32_t score(const FreeResources& free, std::uint32_t server,
                                           const Demand& demand) = 0;
  /// Returns the GPUs that the demand gets there; by default those of which the least is free.
  [[nodiscard]] virtual std::uint64_t gpus_on(const FreeResources& free, std::uint32_t server,
                                              const Demand& demand);

  /// What is known of a demand: by server, its score at a version, or that it did not fit.
  struct Known {
    std::vector<std::uint64_t> versions;
    std::vector<std::int32_t> scores;
  };
  void renew(const FreeResources& free, const Demand& demand, Known& known);

  std::map<Demand, Known> known_;
};

}  // namespace gpemu::scheduling
