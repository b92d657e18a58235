// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/saturate.hpp"
#include "gpemu/device/monitor.hpp"

namespace gpemu::tools {

/// One device, as `gpemu smi` shows it.
struct SmiDevice {
  std::string node;
  bool exclusive = false;  ///< one process at a time may use it.
  bool divided = false;    ///< MIG divides it.
  device::DeviceSnapshot now;
  device::DeviceLoad load;
};

/// Returns the product's name or, if it is not known, the name of the specification.
[[nodiscard]] inline std::string name_of(const device::DeviceSnapshot& device) {
  return device.facts.product_name[0] == '\0' ? device.gpu : device.facts.product_name;
}

/// Returns the whole number of MiB, without the unit, as nvidia-smi does.
[[nodiscard]] inline std::string mib_text(Bytes bytes) {
  return fmt::format("{:.0f}", std::floor(to_mib(bytes)));
}

/// Returns the pid, as PID@NAMESPACE if it belongs to another PID namespace.
[[nodiscard]] inline std::string pid_text(const device::ProcessSnapshot& process) {
  if (process.foreign_namespace == 0) return fmt::to_string(process.pid);
  return fmt::format("{}@{}", process.pid, process.foreign_namespace);
}

/// All devices at one time.
struct SmiSample {
  std::string time;  ///< local, "2026/01/31 23:59:59.123".
  std::vector<SmiDevice> devices;
};

/// Returns when to take a sample of a series with `period_s` seconds between samples, at most the
/// last representable time.
[[nodiscard]] inline TimePoint sample_time(TimePoint start, double period_s, std::int64_t number) {
  return saturating_add(start, from_seconds(period_s * static_cast<double>(number)));
}

}  // namespace gpemu::tools
