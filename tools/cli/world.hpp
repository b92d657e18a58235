// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "gpemu/sim/clock.hpp"

namespace gpemu::tools {

/// The surroundings of the commands. main() makes them, and they outlive the commands.
struct World {
  std::filesystem::path nodes;  ///< the folder of the nodes.
  /// Returns the value of an environment variable; empty if it is not set.
  std::function<std::string(const char* name)> variable;
  sim::Clock& clock;  ///< on which commands wait and measure time.
  std::function<std::chrono::system_clock::time_point()> time_of_day;
};

/// Returns the surroundings of this process.
[[nodiscard]] World real_world(sim::Clock& clock);

}  // namespace gpemu::tools
