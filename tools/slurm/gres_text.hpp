// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"

#include "slurm/machine_gpus.hpp"
#include "slurm/slurm_settings.hpp"

namespace gpemu::tools {

/// Returns the folder of the device files that gres.conf names: Slurm wants a device of its own
/// for each GPU, and never opens it.
[[nodiscard]] std::filesystem::path device_folder(const std::filesystem::path& state);

/// Returns the NVLinks between a GPU and each of all, -1 for itself, as Slurm's NVML plug-in counts
/// them: those that lead to another GPU, and none that lead to a switch.
[[nodiscard]] std::vector<int> links_of(const profile::TopologySpec& topology, int gpu);

/// Returns the socket of the processor that a GPU is plugged in below.
[[nodiscard]] int socket_of(const profile::TopologySpec& topology, int gpu);

/// Returns the lines of gres.conf for nodes, and as comments those that slurm.conf needs.
[[nodiscard]] std::string gres_lines(const SlurmNodes& nodes, const MachineGpus& machine,
                                     const std::filesystem::path& state);

/// Returns a whole gres.conf. Errors: those of machine_gpus(), with the table's line.
[[nodiscard]] Result<std::string> gres_conf(const SlurmSettings& settings,
                                            const GpuSources& sources);

}  // namespace gpemu::tools
