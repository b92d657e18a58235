// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/units.hpp"

namespace gpemu::device {

/// When a piece of work runs on its engine.
struct Interval {
  TimePoint start;
  TimePoint end;
  /// The engine's time that it takes; less than end - start when other processes' work runs in
  /// between. All work of an engine together never exceeds the range of Duration.
  Duration busy;
  /// When the host queued it.
  TimePoint asked{};
  /// For how long this process's device had had nothing to do then.
  Duration idle{};
};

}  // namespace gpemu::device
