// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "gpemu/base/units.hpp"
#include "gpemu/device/fault_table.hpp"
#include "gpemu/device/node_state.hpp"

namespace gpemu::device {

/// How long work takes on a device that faults may disturb. Outlives no segment.
struct Speed {
  FaultTable faults;
  int device = 0;

  /// `engine`: of all devices'. A GPU's clock makes no difference to copies.
  [[nodiscard]] Duration time_of(std::size_t engine, TimePoint start, Duration cost) const {
    if (engine % kEngineCount == static_cast<std::size_t>(Engine::kCompute)) {
      return faults.time_of(device, start, cost);
    }
    const TimePoint lost = lost_from(start);
    return lost <= start ? Duration() : std::min(cost, lost - start);
  }
  [[nodiscard]] TimePoint lost_from(TimePoint since) const {
    return faults.lost_from(device, since);
  }
};

}  // namespace gpemu::device
