// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/compute_shares.hpp"
#include "gpemu/device/device_config.hpp"
#include "gpemu/device/memory_limits.hpp"
#include "gpemu/device/process_priority.hpp"
#include "gpemu/topology/network.hpp"

namespace gpemu::process {

/// What this process records, and whether what is not emulated ends it.
struct RecordSettings {
  std::string folder;       ///< of the records; empty if none is kept.
  bool operations = false;  ///< whether each operation is recorded, too.
  bool strict = false;      ///< see `gpemu run --strict`.
};

/// A job of which this process is a rank and only the first ranks run. The others are phantoms:
/// rank r counts as one that does what rank r modulo `real_ranks` does, at the same time.
struct Job {
  int ranks = 0;
  int rank = 0;            ///< of this process.
  int ranks_per_host = 0;  ///< as the launcher counts hosts.
  int real_ranks = 0;      ///< less than `ranks`.
};

/// How this process is a client of MPS, if it is one. Source of the variables: NVIDIA,
/// "Multi-Process Service", "Environment Variables".
struct MpsSettings {
  std::filesystem::path pipe;                          ///< the folder of the daemon's socket.
  std::optional<std::string> percentage;               ///< as it is written there;
  std::optional<std::string> memory_limits, priority;  ///< likewise.
};

/// What the environment of this process asks for (docs/reference/environment.md).
struct Settings {
  std::string node;                    ///< whose devices the process uses;
  std::string devices;                 ///< the part of them that it sees, see part_of_node(); or:
  std::string gpu;                     ///< the kind of the only device of a node of its own,
  bool virtual_clock = false;          ///< its clock,
  std::optional<Bytes> memory;         ///< and its memory, if not the real GPU's.
  std::vector<std::string> gpu_files;  ///< that describe GPUs which the database does not have.
  std::optional<Bytes> context_bytes;  ///< of a device's memory for each context, if not the usual.
  std::optional<std::string> visible_devices;  ///< see visible_devices().
  device::ProcessPriority priority{};          ///< among those that share a device.
  device::MemoryLimits memory_limits;          ///< what the process may hold of each device.
  device::ComputeShares compute_shares;        ///< which part of each device's time it gets.
  std::optional<topology::Network> network;    ///< that joins hosts.
  std::optional<Job> job;                      ///< if some of its ranks are phantoms.
  bool launches_block = false;  ///< whether a launch returns when its work has ended.
  bool drop_data = false;       ///< whether large copies from pinned memory move no bytes.
  MpsSettings mps;
  RecordSettings record;
};

/// Returns what the variables ask for. Errors: kInvalidArgument for a size, a network or a number
/// of ranks that is none.
[[nodiscard]] Result<Settings> read_settings(const Lookup& lookup);

/// Returns the part that also applies to a process without settings: one that has not attached, or
/// could not.
[[nodiscard]] RecordSettings read_record_settings(const Lookup& lookup);

}  // namespace gpemu::process
