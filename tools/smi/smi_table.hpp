// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "smi/smi_sample.hpp"

namespace gpemu::tools {

/// Returns the table that people know from nvidia-smi: the devices of each node and, at the end,
/// the processes on them. Ends with a newline.
[[nodiscard]] std::string smi_table(const SmiSample& sample);

/// Returns the list of the devices, one per line, as `nvidia-smi -L` does; those of several nodes
/// with their node's name.
[[nodiscard]] std::string smi_list(const SmiSample& sample);

}  // namespace gpemu::tools
