// SPDX-License-Identifier: Apache-2.0
#include "cli/world.hpp"

#include <cstdlib>

#include "gpemu/device/node.hpp"

namespace gpemu::tools {

World real_world(sim::Clock& clock) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  return {.nodes = device::Node::default_directory(),
          .variable = variable,
          .clock = clock,
          .time_of_day = [] { return std::chrono::system_clock::now(); }};
}

}  // namespace gpemu::tools
