// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/pool_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <unistd.h>
#include <utility>

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
  const std::string& kind = pool.gpus.front().gpu;
  if (std::ranges::all_of(pool.gpus, [&](const auto& gpu) { return gpu.gpu == kind; })) {
    const std::string& text = options.gpus.front();
    GPEMU_ASSIGN(profile::GpuSpec spec, database.gpu(text.substr(0, text.rfind(':'))));
    pool.mig_profiles = std::move(spec.mig_profiles);
  }
  return pool;
}

Result<std::vector<std::string>> read_mig_profiles(const std::vector<std::string>& texts) {
  constexpr int kMost = 8;
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    const std::size_t colon = text.rfind(':');
    int count = 1;
    if (colon != std::string::npos) {
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, count);
      if (error != std::errc() || stop != end || count < 1 || count > kMost) {
        return fail(ErrorCode::kInvalidArgument,
                    "--mig {}: write PROFILE or PROFILE:COUNT with a count of 1 to {}", text,
                    kMost);
      }
    }
    names.insert(names.end(), static_cast<std::size_t>(count), text.substr(0, colon));
  }
  return names;
}

containers::Division division_of(const std::string& name) {
  if (name == "share") return containers::Division::kShare;
  return name == "limit" ? containers::Division::kLimit : containers::Division::kNone;
}

}  // namespace gpemu::tools
