// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/device/mig_layout.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/topology_spec.hpp"

#include "slurm/slurm_settings.hpp"

namespace gpemu::tools {

/// The files from which GPUs and machines are known.
struct GpuSources {
  profile::Database database;
  std::filesystem::path topologies;

  /// Opens those of this installation. Errors: those of Database::open().
  [[nodiscard]] static Result<GpuSources> open();
};

/// What Slurm calls one GPU: a GPU, or an instance of one that MIG divides.
struct GresDevice {
  std::string type;   ///< e.g. "h100", "h100_1g.10gb".
  int gpu = 0;        ///< of the machine.
  int instance = -1;  ///< among those of the GPU, in the order of its MIG devices; -1: all of it.
};

/// The GPUs of one machine of the cluster.
struct MachineGpus {
  std::vector<device::DeviceConfig> gpus;
  std::vector<std::vector<profile::MigProfile>> mig_profiles;  ///< of each GPU.
  std::optional<profile::TopologySpec> topology;
  std::vector<GresDevice> devices;  ///< in the order of Slurm's numbers.
};

/// Returns the GPUs that a description gives nodes.
///
/// Errors: those of read_device_list() and find_topology(); kInvalidArgument for MIG instances that
/// a GPU cannot have.
[[nodiscard]] Result<MachineGpus> machine_gpus(const SlurmNodes& nodes, const GpuSources& sources);

/// Returns the instances that a description gives a GPU. Errors: those of MigLayout::create().
[[nodiscard]] Result<device::MigLayout> mig_layout(
    const std::vector<std::string>& instances, const std::string& gpu,
    const std::vector<profile::MigProfile>& profiles);

}  // namespace gpemu::tools
