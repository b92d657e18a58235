// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "gpemu/base/error.hpp"
#include "gpemu/device/monitor.hpp"

namespace gpemu {

/// A device that is watched.
struct Watched {
  std::shared_ptr<device::Monitor> monitor;
  int index = 0;  ///< in the node.
};

/// Finds a device by the index that it has in this process. Errors: kUnavailable without a user of
/// the monitor, kNotFound.
[[nodiscard]] Result<Watched> watched(int index);

}  // namespace gpemu
