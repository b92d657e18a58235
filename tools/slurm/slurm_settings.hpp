// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::tools {

/// The GPUs of some of a cluster's nodes, all alike.
struct SlurmNodes {
  std::string pattern;             ///< as Slurm writes it, e.g. "n[1-4,7]"; for gres.conf.
  std::vector<std::string> names;  ///< that it means.
  std::vector<std::string> gpus;   ///< "NAME" or "NAME:COUNT"; empty: those of `topology`.
  std::string topology;            ///< a name or a file; empty if it is not described.
  int cpus = 0;                    ///< as slurm.conf counts them; 0: gres.conf says no cores.
  int shards = 0;                  ///< of each GPU; 0: none.
  bool limits_shards = true;       ///< a job has no more of a GPU than its shards.
  bool mps = false;                ///< whether jobs may have percentages of GPUs.
  std::vector<std::string> mig;    ///< the instances of each GPU, e.g. "3g.40gb".
  int line = 0;                    ///< of the file, for messages.
};

/// Which GPUs the nodes of a Slurm cluster have: the one description that `gpemu-slurm` makes
/// gres.conf from and gives GPUs to tasks by.
struct SlurmSettings {
  std::vector<SlurmNodes> nodes;
  std::filesystem::path state = "/run/gpemu-slurm";  ///< a folder of each machine.
  std::filesystem::path usage;                       ///< of what jobs used; by default `state`.
  std::string network;  ///< of jobs that do not set GPEMU_NETWORK; empty: none.

  /// Returns what a node has. Errors: kNotFound if the file does not name it.
  [[nodiscard]] Result<const SlurmNodes*> of(std::string_view node) const;
};

/// Where the description is, unless --conf names another file.
inline constexpr const char* kSlurmSettings = "/etc/gpemu/slurm.toml";

/// Reads a description (docs/how-to/slurm.md). `origin` names it in messages.
///
/// Errors: kCorruptData with the line and the key.
[[nodiscard]] Result<SlurmSettings> parse_slurm_settings(std::string_view text,
                                                         std::string_view origin);

/// Errors: those of read_file and parse_slurm_settings().
[[nodiscard]] Result<SlurmSettings> read_slurm_settings(const std::filesystem::path& path);

/// Returns the names that a host list of Slurm means, e.g. "n[08-10],login".
///
/// Errors: kInvalidArgument if it is none, or means more than 65,536 names.
[[nodiscard]] Result<std::vector<std::string>> names_of_hostlist(std::string_view list);

}  // namespace gpemu::tools
