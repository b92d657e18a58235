// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/units.hpp"

namespace gpemu::device {

/// When a piece of work runs on its engine.
struct Interval {
  TimePoint start;
  TimePoint end;
  /// The engine time that the work takes. It is less than end - start if other processes' work runs
  /// in between. The sum over all work of an engine never exceeds the range of Duration.
  Duration busy;
  /// When the host queued the work.
  TimePoint asked{};
  /// For how long the device had had no work of this process at that time.
  Duration idle{};
};

}  // namespace gpemu::device
