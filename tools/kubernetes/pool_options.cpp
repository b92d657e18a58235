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

void add_pool_options(Command command, PoolOptions& options) {
  command.option("--gpu", options.gpus, "NAME[:COUNT] as in `gpemu profile list`; repeat it")
      .required();
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
  GPEMU_ASSIGN(const profile::Database database,
               profile::Database::open(profile::Database::default_paths()));
  containers::GpuPoolOptions pool{
      .machine = options.machine.empty() ? host_name() : options.machine,
      .gpus = {},
      .faults = {},
      .slices = {},
      .folder = options.state,
      .installation = options.installation};
  GPEMU_ASSIGN(pool.gpus, read_device_list(database, options.gpus));
  GPEMU_ASSIGN(pool.faults, faults_of(options.faults, pool.gpus.size()));
  GPEMU_ASSIGN(pool.mig_profiles, mig_profiles_of(database, options.gpus));
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
