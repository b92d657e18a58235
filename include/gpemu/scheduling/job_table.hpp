// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/accounting.hpp"
#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/speed_profile.hpp"

namespace gpemu::scheduling {

/// How long jobs restart, by model and number of GPUs. Units: seconds.
using RestartTimes = std::map<std::pair<std::string, std::uint32_t>, double>;

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

/// How fast models train on what, by name. Source of each: a table of speeds.
using SpeedTable = std::map<std::string, std::shared_ptr<const SpeedProfile>>;

/// Reads a CSV file with the columns model and speed, and gpu, or cores and memory_gib for each GPU
/// (docs/reference/job-tables.md), which may be compressed by gzip.
///
/// Errors: kIo; kCorruptData with file and line, or if a model has no speed for a kind of the
/// fleet.
[[nodiscard]] Result<SpeedTable> read_speeds(const std::filesystem::path& path, const Fleet& fleet);

/// Reads speeds from the text of such a file; messages call it `name`.
[[nodiscard]] Result<SpeedTable> parse_speeds(std::string_view text, const std::string& name,
                                              const Fleet& fleet);

/// What the reader of jobs adds to the file.
struct JobTableOptions {
  const Fleet* fleet = nullptr;        ///< has the kinds of GPUs that jobs name; null: it has none.
  const SpeedTable* speeds = nullptr;  ///< has all models of the file; null: none are known.
  double iteration_factor = 1;         ///< iterations take so many times what the file says.
  double restart_s = 0;                ///< of jobs whose file does not say it, without `restarts`.
  const RestartTimes* restarts = nullptr;  ///< has all models of the file; null: none are known.
  /// Takes also formats that do not say when jobs arrive and how long they run; those are then 0.
  bool timeless = false;
};

/// Reads jobs from a CSV file, which may be compressed by gzip, and sorts them by arrival. The
/// header's columns tell the format (docs/reference/job-tables.md): gpemu's own, Muri's, the one
/// derived from Philly, ElasticFlow's, or openb's.
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
