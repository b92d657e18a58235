// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/topology_spec.hpp"

namespace gpemu::tools {

/// Reads a list of "NAME" or "NAME:COUNT", as in --gpu options.
///
/// Errors: kInvalidArgument for a count out of range, kNotFound for an unknown GPU.
[[nodiscard]] Result<std::vector<device::DeviceConfig>> read_device_list(
    const profile::Database& database, const std::vector<std::string>& texts);

/// Returns the GPUs of a machine, as --gpu options name them.
[[nodiscard]] std::vector<std::string> gpus_of(const profile::TopologySpec& machine);

}  // namespace gpemu::tools
