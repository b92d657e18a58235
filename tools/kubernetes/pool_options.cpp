// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/pool_options.hpp"

#include <array>
#include <unistd.h>
#include <utility>

#include "gpemu/device/mig_layout.hpp"
#include "gpemu/profile/database.hpp"

#include "cli/device_list.hpp"

namespace gpemu::tools {

std::string host_name() {
  std::array<char, 64> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

void add_gpu_options(Command command, std::vector<std::string>& gpus, std::string& topology) {
  command.option("--gpu", gpus, "NAME[:COUNT] as in `gpemu profile list`; repeat it");
  command.option("--topology", topology,
                 "How the GPUs are joined, as `gpemu node topo` names it, or a TOML file; without "
                 "--gpu, all that it has");
}

Result<MachineGpus> read_machine_gpus(const std::vector<std::string>& gpus,
                                      const std::string& topology) {
  const profile::Database::Paths paths = profile::Database::default_paths();
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(paths));
  MachineGpus machine{.gpus = {}, .topology = std::nullopt, .mig_profiles = {}};
  std::vector<std::string> names = gpus;
  if (!topology.empty()) {
    GPEMU_ASSIGN(machine.topology,
                 profile::find_topology(paths.installed.parent_path() / "topologies", topology));
    if (names.empty()) names = gpus_of(*machine.topology);
  }
  if (names.empty()) return fail(ErrorCode::kInvalidArgument, "give --gpu, --topology or both");
  GPEMU_ASSIGN(machine.gpus, read_device_list(database, names));
  if (machine.topology && machine.topology->gpus.size() != machine.gpus.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "--topology: the machine '{}' has {} GPUs, and --gpu gives {}: leave --gpu out, or "
                "give so many",
                machine.topology->name, machine.topology->gpus.size(), machine.gpus.size());
  }
  GPEMU_ASSIGN(machine.mig_profiles, mig_profiles_of(database, names));
  return machine;
}

void add_pool_options(Command command, PoolOptions& options) {
  add_gpu_options(command, options.gpus, options.topology);
  command.option("--machine", options.machine,
                 "The name from which the UUIDs follow; by default the host's");
  command
      .option("--installation", options.installation,
              "The folder in which gpemu alone is installed, for containers")
      .show_default();
  command.option("--state", options.state, "The folder of the containers' nodes").show_default();
}

void add_fault_option(Command command, PoolOptions& options) {
  command.option("--faults", options.faults,
                 "A file of faults (docs/reference/faults-file.md), which containers have, too: no "
                 "further container gets a GPU that is lost; times count from this command's "
                 "start");
}

Result<containers::GpuPoolOptions> read_pool_options(const PoolOptions& options) {
  GPEMU_ASSIGN(MachineGpus machine, read_machine_gpus(options.gpus, options.topology));
  GPEMU_ASSIGN(std::string faults, faults_of(options.faults, machine.gpus.size()));
  containers::GpuPoolOptions pool{
      .machine = options.machine.empty() ? host_name() : options.machine,
      .gpus = std::move(machine.gpus),
      .faults = std::move(faults),
      .topology = std::move(machine.topology),
      .slices = {},
      .folder = options.state,
      .installation = options.installation};
  pool.mig_profiles = std::move(machine.mig_profiles);
  return pool;
}

Result<std::vector<profile::MigProfile>> mig_profiles_of(const profile::Database& database,
                                                         const std::vector<std::string>& gpus) {
  std::vector<profile::MigProfile> profiles;
  std::string kind;
  for (const std::string& text : gpus) {
    GPEMU_ASSIGN(profile::GpuSpec spec, database.gpu(text.substr(0, text.rfind(':'))));
    if (!kind.empty() && spec.name != kind) return std::vector<profile::MigProfile>();
    kind = spec.name;
    profiles = std::move(spec.mig_profiles);
  }
  return profiles;
}

Result<std::vector<std::string>> read_mig_profiles(const std::vector<std::string>& texts) {
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    GPEMU_ASSIGN(const auto counted, read_counted("--mig", text, device::kMostMigSlices));
    names.insert(names.end(), static_cast<std::size_t>(counted.second), counted.first);
  }
  return names;
}

containers::Division division_of(const std::string& name) {
  if (name == "share") return containers::Division::kShare;
  return name == "limit" ? containers::Division::kLimit : containers::Division::kNone;
}

}  // namespace gpemu::tools
