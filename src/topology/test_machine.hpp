// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "gpemu/profile/topology_spec.hpp"

namespace gpemu::topology {

/// Returns one of the described machines.
inline profile::TopologySpec machine(const std::string& name) {
  const std::filesystem::path folder = GPEMU_TOPOLOGIES_FOLDER;
  return profile::load_topology_spec(folder / (name + ".toml")).value();
}

}  // namespace gpemu::topology
