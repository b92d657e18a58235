// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/units.hpp"
#include "gpemu/profile/fault_plan.hpp"

namespace gpemu::train {

/// Why a run ended early: a fault of its node.
struct RunFailure {
  profile::FaultKind kind = profile::FaultKind::kKill;  ///< kKill, kLost or kBrokenLink.
  int gpu = 0;                                          ///< in the run.
  TimePoint time{};                                     ///< from which it cannot go on.
};

}  // namespace gpemu::train
