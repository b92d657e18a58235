// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "smi/smi_sample.hpp"

namespace gpemu::tools {

/// Returns a table like nvidia-smi's: the devices of each node and, at the end, the processes on
/// them. Ends with a newline.
[[nodiscard]] std::string smi_table(const SmiSample& sample);

/// Returns the list of devices, one per line, like `nvidia-smi -L`; with several nodes, lines have
/// the node's name.
[[nodiscard]] std::string smi_list(const SmiSample& sample);

}  // namespace gpemu::tools
