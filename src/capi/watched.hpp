// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/device/mig_layout.hpp"
#include "gpemu/device/monitor.hpp"
#include "gpemu/device/node.hpp"

namespace gpemu {

/// A device that is watched.
struct Watched {
  std::shared_ptr<device::Monitor> monitor;
  int index = 0;  ///< in the node.
};

/// Finds a device by the index that it has in this process. Errors: kUnavailable without a user of
/// the monitor, kNotFound.
[[nodiscard]] Result<Watched> watched(int index);

/// Returns the node of a device, to change it. Errors: those of Node::open.
[[nodiscard]] Result<std::shared_ptr<device::Node>> node_to_change(const Watched& device);

/// Returns the MIG devices of a device. None if MIG does not divide it.
[[nodiscard]] Result<std::vector<device::MigDevice>> mig_devices(const Watched& watched);

}  // namespace gpemu
