// SPDX-License-Identifier: Apache-2.0
#include "cli/world.hpp"

#include <cstdlib>
#include <ctime>
#include <system_error>

#include "gpemu/device/node.hpp"

namespace gpemu::tools {
namespace {

Duration thread_cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec);
}

}  // namespace

World real_world(sim::Clock& clock) {
  const auto variable = [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
  std::error_code none;
  return {.nodes = device::Node::default_directory(),
          .profiles = profile::Database::default_paths(),
          .temporary = std::filesystem::temp_directory_path(none),
          .variable = variable,
          .clock = clock,
          .time_of_day = [] { return std::chrono::system_clock::now(); },
          .terminal = [variable] { return report::terminal(variable); },
          .thread_cpu_time = thread_cpu_time,
          .host_sample = report::sample_host};
}

}  // namespace gpemu::tools
