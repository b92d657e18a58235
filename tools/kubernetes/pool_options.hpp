// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/containers/gpu_pool.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/mig_profile.hpp"
#include "gpemu/profile/topology_spec.hpp"

#include "cli/command.hpp"

namespace gpemu::tools {

/// The options of all commands that give a machine's GPUs to containers.
struct PoolOptions {
  std::vector<std::string> gpus;
  std::string topology;  ///< a name or a file.
  std::string machine;   ///< a name.
  std::string faults;    ///< a file.
  std::string installation = containers::kInstallation;
  std::string state;  ///< a folder.
};

/// The GPUs of a machine.
struct MachineGpus {
  std::vector<device::DeviceConfig> gpus;
  std::optional<profile::TopologySpec> topology;
  std::vector<profile::MigProfile> mig_profiles;  ///< see mig_profiles_of().
};

/// Adds --gpu and --topology to a command.
void add_gpu_options(Command command, std::vector<std::string>& gpus, std::string& topology);

/// Returns what these options say: the GPUs, or without any those of the topology.
///
/// Errors: those of read_device_list() and find_topology(); kInvalidArgument for neither,
/// and for other numbers of GPUs.
[[nodiscard]] Result<MachineGpus> read_machine_gpus(const std::vector<std::string>& gpus,
                                                    const std::string& topology);

/// Returns the name of this computer.
[[nodiscard]] std::string host_name();

/// Adds --gpu, --topology, --machine, --installation and --state to a command.
void add_pool_options(Command command, PoolOptions& options);

/// Adds --faults.
void add_fault_option(Command command, PoolOptions& options);

/// Returns what the options say, for GPUs without replicas, which MIG does not divide but may, if
/// they are of one kind.
///
/// Errors: those of read_machine_gpus() and faults_of().
[[nodiscard]] Result<containers::GpuPoolOptions> read_pool_options(const PoolOptions& options);

/// Returns the profiles of MIG that the GPUs of --gpu options have; none if they are of several
/// kinds. Errors: those of Database::gpu().
[[nodiscard]] Result<std::vector<profile::MigProfile>> mig_profiles_of(
    const profile::Database& database, const std::vector<std::string>& gpus);

/// Reads names of MIG's profiles, each with ":COUNT" behind it or without. Errors:
/// kInvalidArgument for a count out of range.
[[nodiscard]] Result<std::vector<std::string>> read_mig_profiles(
    const std::vector<std::string>& texts);

/// Returns what --divide names: none, share or limit.
[[nodiscard]] containers::Division division_of(const std::string& name);

}  // namespace gpemu::tools
