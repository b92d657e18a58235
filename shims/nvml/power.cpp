// SPDX-License-Identifier: Apache-2.0
//
// Limits of power, locked clocks, and why clocks are low (docs/design/power.md).
#include <chrono>

#include "nvml.hpp"

using nvml::Handle;
using Power = gpemu_monitor_power;

namespace nvml {
namespace {

/// What this shim can report. Others, such as heat, never lower the clock.
constexpr uint64_t kReportedReasons = kGpuIdle | kClocksSetting | kSwPowerCap | kHwSlowdown;

template <typename Use>
int with_power(const Handle* device, Use use) {
  return with<Power>(device, gpemu_monitor_get_power, use);
}

/// Yields a limit. Units: milliwatts.
int put_limit(const Handle* device, unsigned* milliwatts, double Power::* limit) {
  if (milliwatts == nullptr) return kInvalidArgument;
  return with_power(device, [=](const Power& power) -> int {
    if (power.*limit <= 0) return kNotSupported;
    *milliwatts = rounded(1000 * power.*limit);
    return kSuccess;
  });
}

/// Returns NVML's status for a change of settings.
int changed(gpemu_status status) {
  return status == GPEMU_ERROR_IO ? static_cast<int>(kNoPermission) : status_of(status);
}

int set_limit(const Handle* device, unsigned milliwatts) {
  const auto [index, status] = index_of(device);
  if (status != kSuccess) return status;
  // The interface takes 0 for the board's own limit.
  if (milliwatts == 0) return kInvalidArgument;
  return changed(gpemu_monitor_set_power_limit(index, milliwatts / 1000.0));
}

int lock_clock(const Handle* device, double megahertz) {
  const auto [index, status] = index_of(device);
  return status == kSuccess ? changed(gpemu_monitor_lock_clock(index, megahertz)) : status;
}

uint64_t reasons_of(const gpemu_monitor_load& load, const Power& power) {
  uint64_t reasons = load.clock_share < 1 ? kHwSlowdown : kNoReason;
  if (load.compute <= 0) return reasons != kNoReason ? reasons : uint64_t{kGpuIdle};
  if (power.capped != 0) reasons |= kSwPowerCap;
  if (power.locked_clock_mhz > 0 && power.capped == 0) reasons |= kClocksSetting;
  return reasons;
}

int put_reasons(const Handle* device, uint64_t* reasons) {
  if (reasons == nullptr) return kInvalidArgument;
  return with_load(device, [=](const gpemu_monitor_load& load) {
    return with_power(device, [&](const Power& power) {
      *reasons = reasons_of(load, power);
      return static_cast<int>(kSuccess);
    });
  });
}

}  // namespace

int put_power_field(const Handle* device, FieldValue& field) {
  unsigned* const number = &field.value.as_unsigned;
  field.type = kUnsignedInt;
  switch (field.field) {
    case kMinLimitField:
      return put_limit(device, number, &Power::min_limit_w);
    case kMaxLimitField:
      return put_limit(device, number, &Power::max_limit_w);
    case kDefaultLimitField:
      return put_limit(device, number, &Power::default_limit_w);
    case kCurrentLimitField:
      return put_limit(device, number, &Power::limit_w);
    case kPowerViolationField:
      field.type = kUnsignedLongLong;
      return with_power(device, [&field](const Power& power) {
        field.value.as_unsigned_long_long = static_cast<uint64_t>(power.capped_ns);
        return static_cast<int>(kSuccess);
      });
    default:
      return kNotSupported;
  }
}

}  // namespace nvml

GPEMU_SHIM_EXPORT int nvmlDeviceGetCurrentClocksEventReasons(Handle* device, uint64_t* reasons) {
  return nvml::put_reasons(device, reasons);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(Handle* device, uint64_t* reasons) {
  return nvml::put_reasons(device, reasons);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetSupportedClocksEventReasons(Handle* device, uint64_t* reasons) {
  return nvml::put_constant(device, reasons, nvml::kReportedReasons);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetSupportedClocksThrottleReasons(Handle* device,
                                                                  uint64_t* reasons) {
  return nvml::put_constant(device, reasons, nvml::kReportedReasons);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetViolationStatus(Handle* device, unsigned policy,
                                                   nvml::ViolationTime* time) {
  if (time == nullptr || policy >= nvml::kPerfPolicyEnd) return nvml::kInvalidArgument;
  if (policy != nvml::kPowerPolicy) return nvml::absent(device);
  return nvml::with_power(device, [time](const Power& power) {
    time->reference_us =
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                  std::chrono::system_clock::now().time_since_epoch())
                                  .count());
    time->violation_ns = static_cast<uint64_t>(power.capped_ns);
    return static_cast<int>(nvml::kSuccess);
  });
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetPowerManagementMode(Handle* device, unsigned* mode) {
  return nvml::put_constant(device, mode, unsigned{nvml::kEnabled});
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetPowerManagementLimit(Handle* device, unsigned* limit) {
  return nvml::put_limit(device, limit, &Power::limit_w);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetEnforcedPowerLimit(Handle* device, unsigned* limit) {
  return nvml::put_limit(device, limit, &Power::limit_w);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetPowerManagementDefaultLimit(Handle* device, unsigned* limit) {
  return nvml::put_limit(device, limit, &Power::default_limit_w);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetPowerManagementLimitConstraints(Handle* device, unsigned* min,
                                                                   unsigned* max) {
  if (min == nullptr || max == nullptr) return nvml::kInvalidArgument;
  const int status = nvml::put_limit(device, min, &Power::min_limit_w);
  return status == nvml::kSuccess ? nvml::put_limit(device, max, &Power::max_limit_w) : status;
}
GPEMU_SHIM_EXPORT int nvmlDeviceSetPowerManagementLimit(Handle* device, unsigned limit) {
  return nvml::set_limit(device, limit);
}
GPEMU_SHIM_EXPORT int nvmlDeviceSetPowerManagementLimit_v2(Handle* device,
                                                           nvml::PowerValue* limit) {
  if (limit == nullptr) return nvml::kInvalidArgument;
  if (!nvml::is_version(*limit, 2)) return nvml::kArgumentVersionMismatch;
  if (limit->scope != nvml::kGpuScope) return nvml::absent(device);
  return nvml::set_limit(device, limit->milliwatts);
}

/// Kernels run at the highest clock that is allowed, so the lowest one has no effect.
GPEMU_SHIM_EXPORT int nvmlDeviceSetGpuLockedClocks(Handle* device, unsigned min, unsigned max) {
  if (max == nvml::kTdpClock || max == nvml::kUnlimitedClock) return nvml::lock_clock(device, 0);
  const bool has_lowest = min != nvml::kTdpClock && min != nvml::kUnlimitedClock;
  if (max == 0 || (has_lowest && min > max)) return nvml::kInvalidArgument;
  return nvml::lock_clock(device, max);
}
GPEMU_SHIM_EXPORT int nvmlDeviceResetGpuLockedClocks(Handle* device) {
  return nvml::lock_clock(device, 0);
}
