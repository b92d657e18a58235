// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::tools {

/// What a job, or a step of one, used of a machine's GPUs.
struct JobUsage {
  std::string job;  ///< its number.
  std::string node;
  std::int64_t user = 0;
  std::string kind;       ///< "gpu", "shard", "mps", "mig" or "own".
  std::vector<int> gpus;  ///< of the machine, that it had.
  double busy_s = 0;      ///< for which the multiprocessors worked for it, of all these together.
  double peak_memory_mib = 0;  ///< that its processes held of one GPU, without contexts.
  int processes = 0;           ///< that used a GPU.
  std::string unknown;         ///< why a part of this is not known; empty if all is.
};

/// Adds a line to a file of usages, which other processes may do at the same time. Errors: kIo.
[[nodiscard]] Result<void> append_usage(const std::filesystem::path& file, const JobUsage& usage);

/// Returns the usages in all files "NODE.jsonl" of a folder and, if it is not empty, of one job
/// alone.
///
/// Errors: those of list_folder(); kCorruptData with file and line.
[[nodiscard]] Result<std::vector<JobUsage>> read_usages(const std::filesystem::path& folder,
                                                        const std::string& job);

/// Returns usages as a table with a row for each job and node.
[[nodiscard]] std::string usage_table(const std::vector<JobUsage>& usages);

/// Returns them as JSON.
[[nodiscard]] nlohmann::ordered_json usages_json(const std::vector<JobUsage>& usages);

}  // namespace gpemu::tools
