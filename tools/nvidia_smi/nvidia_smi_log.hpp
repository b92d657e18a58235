// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "gpemu/base/error.hpp"

#include "smi/smi_sample.hpp"

namespace gpemu::tools {

/// What `nvidia-smi -q` prints: all that is known about each device, as text or as XML with the
/// element names of nvsmi_device_v13.dtd. What gpemu does not emulate reads N/A. Source of the
/// form: printouts of nvidia-smi 550 to 595 in public repositories.

/// `displays`: what to show, e.g. "MEMORY"; empty: all. `all_devices`: how many there are, shown or
/// not. Requires: check_log_displays(displays).
[[nodiscard]] std::string nvidia_smi_log(const SmiSample& sample, std::size_t all_devices,
                                         std::span<const std::string> displays);
[[nodiscard]] std::string nvidia_smi_log_xml(const SmiSample& sample, std::size_t all_devices);

/// Errors: kInvalidArgument for one that nvidia-smi does not have.
[[nodiscard]] Result<void> check_log_displays(std::span<const std::string> displays);

}  // namespace gpemu::tools
