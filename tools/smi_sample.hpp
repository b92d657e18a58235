// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "gpemu/device/monitor.hpp"

namespace gpemu::tools {

/// One device, as `gpemu smi` shows it.
struct SmiDevice {
  std::string node;
  bool exclusive = false;  ///< one process at a time may use it.
  device::DeviceSnapshot now;
  device::DeviceLoad load;
};

/// Returns the pid, as PID@NAMESPACE when it is one of another pid namespace.
[[nodiscard]] inline std::string pid_text(const device::ProcessSnapshot& process) {
  if (process.foreign_namespace == 0) return fmt::to_string(process.pid);
  return fmt::format("{}@{}", process.pid, process.foreign_namespace);
}

/// All devices at one time.
struct SmiSample {
  std::string time;  ///< local, "2026/01/31 23:59:59.123".
  std::vector<SmiDevice> devices;
};

}  // namespace gpemu::tools
