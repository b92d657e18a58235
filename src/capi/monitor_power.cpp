// SPDX-License-Identifier: Apache-2.0
//
// Power and clocks in gpemu/monitor.h.
#include <memory>

#include "gpemu/device/node.hpp"
#include "gpemu/monitor.h"

#include "guard.hpp"
#include "watched.hpp"

using gpemu::guard;
using gpemu::require;
using gpemu::Result;

gpemu_status gpemu_monitor_get_power(int32_t index, gpemu_monitor_power* power) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_power", power));
    GPEMU_ASSIGN(const gpemu::Watched watched, gpemu::watched(index));
    GPEMU_ASSIGN(const gpemu::device::DeviceSnapshot device,
                 watched.monitor->snapshot(watched.index));
    const gpemu::device::PowerSnapshot& now = device.power;
    const gpemu_monitor_power filled{.limit_w = now.limit_w,
                                     .default_limit_w = device.max_power_w,
                                     .min_limit_w = now.min_limit_w,
                                     .max_limit_w = device.max_power_w,
                                     .locked_clock_mhz = now.locked_clock_mhz,
                                     .clock_share = now.clock,
                                     .capped = now.capped ? 1 : 0,
                                     .capped_ns = now.capped_time.count()};
    return gpemu::fill(power, filled, "gpemu_monitor_get_power");
  });
}

gpemu_status gpemu_monitor_set_power_limit(int32_t index, double limit_w) {
  return guard([=]() -> Result<void> {
    GPEMU_ASSIGN(const gpemu::Watched watched, gpemu::watched(index));
    GPEMU_ASSIGN(const auto node, gpemu::node_to_change(watched));
    return node->settings(watched.index).set_power_limit(limit_w, node->clock().now());
  });
}

gpemu_status gpemu_monitor_lock_clock(int32_t index, double clock_mhz) {
  return guard([=]() -> Result<void> {
    GPEMU_ASSIGN(const gpemu::Watched watched, gpemu::watched(index));
    GPEMU_ASSIGN(const auto node, gpemu::node_to_change(watched));
    return node->settings(watched.index).lock_clock(clock_mhz, node->clock().now());
  });
}
