// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/topology_spec.hpp"

namespace gpemu::tools {

/// Reads "NAME" or "NAME:COUNT". Errors: kInvalidArgument for a count that is not from 1 to `most`,
/// with the option's name.
[[nodiscard]] Result<std::pair<std::string, int>> read_counted(std::string_view option,
                                                               const std::string& text, int most);

/// Reads a list of "NAME" or "NAME:COUNT", as in --gpu options.
///
/// Errors: kInvalidArgument for a count out of range, kNotFound for an unknown GPU.
[[nodiscard]] Result<std::vector<device::DeviceConfig>> read_device_list(
    const profile::Database& database, const std::vector<std::string>& texts);

/// Returns the text of a file of faults for so many GPUs, as --faults names it; "" for none.
///
/// Errors: those of profile::load_fault_plan.
[[nodiscard]] Result<std::string> faults_of(const std::string& path, std::size_t gpus);

/// Returns the GPUs of a machine, as --gpu options name them.
[[nodiscard]] std::vector<std::string> gpus_of(const profile::TopologySpec& machine);

}  // namespace gpemu::tools
