// SPDX-License-Identifier: Apache-2.0
#include "cli/world.hpp"

#include <cstdlib>
#include <system_error>

#include "gpemu/device/node.hpp"

namespace gpemu::tools {

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
          .time_of_day = [] { return std::chrono::system_clock::now(); }};
}

}  // namespace gpemu::tools
