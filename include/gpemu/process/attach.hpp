// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "gpemu/process/process.hpp"
#include "gpemu/process/status.hpp"

namespace gpemu::process {

/// Attaches this process to its node on first use. Errors: NO_DEVICE, NOT_INITIALIZED after fork.
[[nodiscard]] Status attach();

/// Returns whether this process was forked from one that had attached. Then no lock may be taken,
/// because threads that do not exist in this process may hold it.
[[nodiscard]] bool forked();

/// The clock of the node. Requires: attached.
[[nodiscard]] inline sim::Clock& clock() {
  return *process().clock;
}

[[nodiscard]] inline int device_count() {
  return static_cast<int>(process().devices.size());
}

/// Requires: 0 <= ordinal < device_count().
[[nodiscard]] inline DeviceState& device_at(int ordinal) {
  return *process().devices[static_cast<std::size_t>(ordinal)];
}

}  // namespace gpemu::process
