// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/node_state.hpp"

namespace gpemu::device {

class Segment;

/// What may be set for a device of a node in which this process takes part, also while processes
/// use it. The node outlives it. Thread safety: any thread.
///
/// Errors: those named, and kUnavailable in a forked child.
class DeviceSettings {
 public:
  DeviceSettings(Segment& segment, int device) : segment_(segment), device_(device) {}

  [[nodiscard]] ComputeMode compute_mode() const;
  /// Says which processes may have contexts from now on; those that have one keep it.
  Result<void> set_compute_mode(ComputeMode mode) const;

  /// Sets the length of the time slices from now on. Errors: kUnsupported if processes do not share
  /// the device by time slices.
  Result<void> set_time_slice(TimeSliceLength length) const;

  /// Limits the power: kernels that are launched from now on run at the clock that the limit allows
  /// (docs/design/power.md). 0: the board's own limit.
  ///
  /// Errors: kInvalidArgument for a limit that the board does not have; kUnavailable if others keep
  /// changing settings.
  Result<void> set_power_limit(double limit_w, TimePoint now) const;
  /// Locks the clock, in MHz, for such kernels. 0 unlocks it. Below and above the clocks that the
  /// device has, the nearest one counts.
  ///
  /// Errors: kUnsupported if the device's clock is not known; kInvalidArgument if it is negative or
  /// not a number; kUnavailable as above.
  Result<void> lock_clock(double clock_mhz, TimePoint now) const;

 private:
  Segment& segment_;
  int device_;
};

}  // namespace gpemu::device
