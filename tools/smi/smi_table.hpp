// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "smi/smi_sample.hpp"

namespace gpemu::tools {

/// Whose table it is: only the first lines differ.
enum class SmiProgram : bool { kGpemuSmi, kNvidiaSmi };

/// Returns the table of nvidia-smi: the devices of each node and, at the end, their MIG devices and
/// the processes on them. Ends with a newline. Source of the form: printouts of nvidia-smi 590 and
/// 595 in public repositories.
[[nodiscard]] std::string smi_table(const SmiSample& sample, SmiProgram program);

/// Returns the list of devices, each with its MIG devices, one per line, like `nvidia-smi -L`; with
/// several nodes, the lines of devices have the node's name.
[[nodiscard]] std::string smi_list(const SmiSample& sample);

}  // namespace gpemu::tools
