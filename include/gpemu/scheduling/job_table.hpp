// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/accounting.hpp"
#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/job_table_options.hpp"

namespace gpemu::scheduling {

/// Reads a CSV file with the columns model, gpus and restart_s, which may be compressed by gzip.
///
/// Errors: kIo; kCorruptData with file and line.
[[nodiscard]] Result<RestartTimes> read_restart_times(const std::filesystem::path& path);

/// Reads restart times from the text of such a file; messages call it `name`.
[[nodiscard]] Result<RestartTimes> parse_restart_times(std::string_view text,
                                                       const std::string& name);

/// Muri's simulator lets an iteration take so many times what its traces say.
/// Source: itertime_overhead_list in simulator/jobs.py of github.com/Rivendile/Muri.
inline constexpr double kMuriIterationFactor = 1.015;

/// Reads a CSV file with the columns model, speed and perhaps gpus, and gpu, or cores and
/// memory_gib for each GPU (docs/reference/job-tables.md), which may be compressed by gzip.
///
/// Errors: kIo; kCorruptData with file and line, or if a model has no speed for a kind of the
/// fleet.
[[nodiscard]] Result<SpeedTable> read_speeds(const std::filesystem::path& path, const Fleet& fleet);

/// Reads speeds from the text of such a file; messages call it `name`.
[[nodiscard]] Result<SpeedTable> parse_speeds(std::string_view text, const std::string& name,
                                              const Fleet& fleet);

/// Reads jobs from a file, which may be compressed by gzip, and sorts them by arrival. Its first
/// line tells the format (docs/reference/job-tables.md).
///
/// Errors: kIo; kCorruptData with file and line, and what a column must hold.
[[nodiscard]] Result<std::vector<Job>> read_jobs(const std::filesystem::path& path,
                                                 const JobTableOptions& options = {});

/// The files that say which jobs there are and how they run.
struct JobFiles {
  std::filesystem::path jobs;
  std::filesystem::path speeds;    ///< empty: models are as fast everywhere.
  std::filesystem::path restarts;  ///< empty: `restart_s`.
  double restart_s = 0;            ///< of jobs whose table does not say it.
  /// With kMuri, iterations take kMuriIterationFactor times what the table says.
  Accounting accounting = Accounting::kChange;
};

/// Reads jobs and what other tables say about them. Errors: those of the readers of each.
[[nodiscard]] Result<std::vector<Job>> read_jobs(const JobFiles& files, const Fleet& fleet);

/// Reads jobs from the text of such a file; messages call it `name`.
[[nodiscard]] Result<std::vector<Job>> parse_jobs(std::string_view text, const std::string& name,
                                                  const JobTableOptions& options = {});

}  // namespace gpemu::scheduling
