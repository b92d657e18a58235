// SPDX-License-Identifier: Apache-2.0
#include "cli/world.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <system_error>
#include <unistd.h>

#include "gpemu/device/node.hpp"
#include "gpemu/report/host_facts.hpp"
#include "gpemu/run/environment.hpp"
#include "gpemu/run/shims.hpp"

namespace gpemu::tools {
namespace {

/// Recordings that run at a time: a program with PyTorch takes a core and about a GiB of memory.
constexpr int kMostRecordings = 4;

Duration cpu_time(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec);
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

std::optional<std::string> own_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

std::optional<std::string> World::variable(std::string_view name) const {
  for (const std::string& entry : environment()) {
    const bool found = entry.starts_with(name) && entry.substr(name.size()).starts_with('=');
    if (found) return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

namespace {

/// Returns what `read` reads from the variables.
template <typename Read>
auto read_variables(const World& world, Read read) {
  std::map<std::string, std::string> values;
  return read([&](const char* name) -> const char* {
    const auto value = world.variable(name);
    return value ? (values[name] = *value).c_str() : nullptr;
  });
}

}  // namespace

Result<device::MemoryLimits> World::memory_limits() const {
  return read_variables(*this, device::MemoryLimits::read);
}

Result<device::ComputeShares> World::compute_shares() const {
  return read_variables(*this, device::ComputeShares::read);
}

std::optional<std::string> World::search_path() const {
  std::optional<std::string> path = variable("PATH");
  const auto folder = shims();
  if (path && folder) path = run::path_with((*folder / "bin").string(), *path);
  return path;
}

World real_world(sim::Clock& clock) {
  const profile::Database::Paths profiles = profile::Database::default_paths();
  std::error_code none;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(none);
  const std::filesystem::path current = std::filesystem::current_path(none);
  return {.nodes = device::default_node_folder(),
          .profiles = profiles,
          .topologies = profiles.installed.parent_path() / "topologies",
          .storage = profiles.installed.parent_path() / "storage",
          .hosts = profiles.installed.parent_path() / "hosts",
          .experiments = profiles.installed.parent_path() / "experiments",
          .pairs = profiles.installed.parent_path() / "pairs.csv",
          .clusters = "/run/gpemu",
          .temporary = temporary,
          .current = current,
          .executable = std::filesystem::read_symlink("/proc/self/exe", none),
          .environment = own_environment,
          .clock = clock,
          .time_of_day = [] { return std::chrono::system_clock::now(); },
          .terminal = [] { return report::terminal(own_variable); },
          .thread_cpu_time = [] { return cpu_time(CLOCK_THREAD_CPUTIME_ID); },
          .process_cpu_time = [] { return cpu_time(CLOCK_PROCESS_CPUTIME_ID); },
          .host_sample = report::sample_host,
          .shims = run::find_shims,
          .run_program = run::run_program,
          .run_tool = run::run_tool,
          .run_for_output = run::run_for_output,
          .record_steps =
              [temporary, current](const run::ProgramRunOptions& options,
                                   const std::atomic<bool>& stop) {
                const run::ProgramSurroundings surroundings{
                    .temporary = temporary, .current = current, .environment = own_environment()};
                return run::record_steps(options, surroundings, stop);
              },
          .recordings_at_once = std::min(report::usable_cores(), kMostRecordings)};
}

}  // namespace gpemu::tools
