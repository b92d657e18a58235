// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gpemu::tools {

/// Is an OCI runtime in front of the real one, as NVIDIA's is: containers whose environment has
/// NVIDIA_VISIBLE_DEVICES get emulated GPUs. All else is the real runtime's, which this process
/// becomes. Returns an exit code; what is wrong is in the standard error and the engine's log.
///
/// words: those of the runtime's command line after its name.
int run_oci_runtime(const std::vector<std::string>& words);

}  // namespace gpemu::tools
