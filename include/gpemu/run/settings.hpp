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

/// How to emulate a program: the settings that libgpemu.so and the shims read from the environment
/// (docs/reference/environment.md). A setting that is empty, 0 or false keeps its default.
struct Settings {
  std::string node;        ///< whose GPUs the program gets; or:
  std::string gpu;         ///< the kind of one GPU for each process, on a virtual clock of its own.
  std::string clock_page;  ///< "OFFSET:FILE" of the node's page; the program's clocks follow it.
  std::string preloaded;   ///< LD_PRELOAD of the caller, which is kept.
  std::vector<std::filesystem::path> gpu_files;  ///< that describe GPUs.
  std::optional<std::uint32_t> context_mib;      ///< that a context takes.
  Bytes memory = 0;                              ///< of the GPU `gpu`.
  int real_ranks = 0;                            ///< of a job; the others are phantoms; 0: all.
  int batch = 0;                                 ///< for the program to read.
  bool drop_data = false;
  bool strict = false;
  bool record_operations = false;
};

/// Returns the environment of a program that loads its shims from the folder `shims` and records in
/// the folder `records`. Settings of a run that contains this process are not passed on.
[[nodiscard]] Environment environment_of(const Settings& settings,
                                         const std::filesystem::path& shims,
                                         const std::filesystem::path& records);

}  // namespace gpemu::run
