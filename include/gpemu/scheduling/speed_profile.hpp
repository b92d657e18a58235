// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "gpemu/scheduling/fleet.hpp"

namespace gpemu::scheduling {

/// How fast a model trains, relative to the time of an iteration that its jobs state: 2 is twice as
/// fast, 0 means that it cannot run. Kind and host are independent: their speeds are multiplied.
struct SpeedProfile {
  /// How fast with so many cores and so much memory for each GPU.
  struct WithHost {
    HostShare per_gpu;
    double speed = 1;
  };

  std::vector<double> by_kind;  ///< by Fleet::kinds(); empty: the same on all.
  /// By rising cores and memory, both at once; empty: the same with all.
  std::vector<WithHost> by_host;

  [[nodiscard]] double on_kind(std::size_t kind) const {
    return by_kind.empty() ? 1 : by_kind[kind];
  }
  /// Returns the greatest speed of those entries that need no more than `per_gpu`; 0 if none does.
  [[nodiscard]] double with_host(const HostShare& per_gpu) const;
};

}  // namespace gpemu::scheduling
