// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/run/environment.hpp"

namespace gpemu::run {

/// How a program is to be emulated: what libgpemu.so and the shims read from the environment;
/// docs/reference/environment.md. What is empty, 0 or false is left to their defaults.
struct Settings {
  std::string node;  ///< whose GPUs the program gets; or:
  std::string gpu;   ///< the kind of one GPU for each process, on a virtual clock of its own.
  std::string clock_page;   ///< "OFFSET:FILE" of the node's, which the program's clocks follow.
  std::string preloaded;    ///< LD_PRELOAD of the caller, which stays.
  std::vector<std::filesystem::path> gpu_files;  ///< that describe GPUs.
  std::optional<std::uint32_t> context_mib;      ///< that a context takes.
  Bytes memory = 0;                              ///< of the GPU `gpu`.
  int batch = 0;                                 ///< for the program to read.
  bool drop_data = false;
  bool strict = false;
  bool record_operations = false;
};

/// Returns the environment of a program that gets the shims for NVIDIA's libraries of a folder
/// and records in another. What a run around this process asked for is not asked of the program.
[[nodiscard]] Environment environment_of(const Settings& settings,
                                         const std::filesystem::path& shims,
                                         const std::filesystem::path& records);

}  // namespace gpemu::run
