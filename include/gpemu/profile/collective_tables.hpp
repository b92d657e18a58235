// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::profile {

/// GPUs on which collectives were measured, from `machines.csv`.
struct MeasuredGroup {
  std::string machine;
  int ranks = 0;
  int nodes = 0;
  std::string gpu;
  std::string generation;  ///< e.g. "ampere".
  std::string inside;      ///< the kind of link within a node, e.g. "nvlink".
  bool switched = false;   ///< through NVSwitches.
  double line_rate = 0;    ///< bytes per second and direction, as topology::Fabric has them.
  double searched_rate = 0;
  int channels = 0;
  std::string between;      ///< the kind of link between nodes; "none" with one node.
  double network_rate = 0;  ///< bytes per second and direction of a node.
};

/// A measured time, from `times.csv`.
struct MeasuredCollective {
  std::size_t group = 0;   ///< index of the GPUs.
  std::string collective;  ///< e.g. "all-reduce".
  Bytes bytes = 0;         ///< nccl-tests' size.
  double seconds = 0;
  /// Who launched: "each" process for its GPU, "one" thread for all GPUs, "torch" (Python is in the
  /// time), or "unknown".
  std::string launcher;
  std::string algorithm;  ///< that NCCL used, e.g. "ring"; "unknown" if the source does not say.
  bool forced = false;    ///< the program told NCCL to use it.
};

struct CollectiveTables {
  std::vector<MeasuredGroup> groups;
  std::vector<MeasuredCollective> times;
};

/// Reads the measured collectives of a folder, e.g. evidence/published/collectives.
///
/// Errors: those of read_file; kCorruptData with the file and line of the first fault.
[[nodiscard]] Result<CollectiveTables> read_collective_tables(const std::filesystem::path& folder);

}  // namespace gpemu::profile
