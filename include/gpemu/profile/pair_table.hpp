// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::profile {

/// A job that shared a GPU with another one.
struct PairedJob {
  std::string model;
  int batch = 0;          ///< 0: the source does not name it.
  std::string precision;  ///< e.g. "fp32"; that of files without a column for it.
  /// NVML's utilization of the GPU and of its memory while the job is alone, as shares of 1.
  std::optional<double> utilization, memory_utilization;
};

/// Two jobs on one GPU, and their speeds together, divided by those alone.
struct MeasuredPair {
  std::string gpu;
  std::array<PairedJob, 2> jobs;
  std::array<double, 2> speeds{};
};

/// Reads a table like evidence/published/sharing/pairs.csv. Columns are found by their names, so
/// there may be others. Pairs without speeds, which did not run together, are left out.
///
/// Errors: those of read_file; kCorruptData with the file and line of the first fault.
[[nodiscard]] Result<std::vector<MeasuredPair>> read_pairs(const std::filesystem::path& file);

}  // namespace gpemu::profile
