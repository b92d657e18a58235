// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/device_settings.hpp"

#include <algorithm>
#include <cstdint>

#include "layout.hpp"
#include "power.hpp"
#include "segment.hpp"
#include "slice_table.hpp"
#include "snapshot.hpp"
#include "time_slices.hpp"

namespace gpemu::device {

Result<void> DeviceSettings::set_compute_mode(ComputeMode mode) const {
  GPEMU_TRY(segment_.check_owner());
  segment_.settings(device_).compute_mode = static_cast<std::uint32_t>(mode);
  return {};
}

ComputeMode DeviceSettings::compute_mode() const {
  return compute_mode_of(segment_.settings(device_));
}

Result<void> DeviceSettings::set_time_slice(TimeSliceLength length) const {
  GPEMU_TRY(segment_.check_owner());
  if (!uses_time_slices(segment_.facts().policy)) {
    return fail(ErrorCode::kUnsupported,
                "processes do not share the devices of node '{}' by time slices", segment_.name());
  }
  segment_.settings(device_).time_slice = static_cast<std::uint32_t>(length);
  // So that it applies from now on, although they may not look for a while.
  TimeSlices slices;
  static_cast<void>(segment_.slice_table(device_).read(slices));
  for (const Sharer& sharer : slices.sharers) segment_.ring(sharer.identity);
  return {};
}

Result<void> DeviceSettings::set_power_limit(double limit_w, TimePoint now) const {
  GPEMU_TRY(segment_.check_owner());
  const PowerSnapshot power = segment_.snapshot(device_, now).power;
  const double max_w = segment_.facts(device_).max_power_w;
  // NaN is in no range.
  if (limit_w != 0 && !(limit_w >= power.min_limit_w && limit_w <= max_w)) {
    return fail(ErrorCode::kInvalidArgument,
                "device {} of node '{}', a {}, takes a power limit of {:.1f} to {:.1f} W, not {:g}",
                device_, segment_.name(), segment_.facts(device_).gpu, power.min_limit_w, max_w,
                limit_w);
  }
  return segment_.change_power(device_, now,
                               [=](PowerSettings& settings) { settings.limit_w = limit_w; });
}

Result<void> DeviceSettings::lock_clock(double clock_mhz, TimePoint now) const {
  GPEMU_TRY(segment_.check_owner());
  if (!(clock_mhz >= 0)) {
    return fail(ErrorCode::kInvalidArgument, "a clock of {:g} MHz does not exist", clock_mhz);
  }
  const double boost = segment_.facts(device_).facts.boost_clock_mhz;
  if (boost <= 0) {
    return fail(ErrorCode::kUnsupported, "the clock of device {} of node '{}', a {}, is not known",
                device_, segment_.name(), segment_.facts(device_).gpu);
  }
  const double locked =
      clock_mhz == 0 ? 0 : std::clamp(clock_mhz, std::min(kLowestLockedMhz, boost), boost);
  return segment_.change_power(device_, now,
                               [=](PowerSettings& settings) { settings.clock_mhz = locked; });
}

}  // namespace gpemu::device
