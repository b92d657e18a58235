// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/report/provenance.hpp"
#include "gpemu/report/svg_plot.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/schedule_metrics.hpp"
#include "gpemu/scheduling/simulator.hpp"
#include "gpemu/scheduling/use_over_time.hpp"

namespace gpemu::tools {

/// What a policy made of a table of jobs on a fleet.
struct ScheduleRow {
  std::string table;  ///< the name of the file; its path if two have the same name.
  std::string fleet;  ///< the same, or servers x GPUs.
  std::string policy;
  std::size_t jobs = 0;
  std::uint64_t gpus = 0;  ///< of the fleet.
  scheduling::ScheduleMetrics metrics;
  std::vector<scheduling::EvidenceShare> evidence;
  std::vector<double> jct_s;  ///< of all jobs, rising.
  scheduling::UseOverTime use;
  std::string job_lines;  ///< what became of each job, as CSV; empty: nobody wants it.
  std::optional<report::Timeline> gantt;  ///< which job had which GPU, without a title.
};

/// A policy without a result on a table of jobs and a fleet.
struct ScheduleGap {
  std::string table;
  std::string fleet;
  std::string policy;
  std::string reason;
};

/// What a command found out. Rows of the same table and fleet are next to each other.
struct ScheduleResults {
  std::vector<ScheduleRow> rows;
  std::vector<ScheduleGap> left_out;  ///< not made for such jobs or such a fleet.
  std::vector<ScheduleGap> failed;
  ErrorCode code = ErrorCode::kInternal;  ///< of one that failed.
};

/// With more, nothing could be told apart in a plot of which job had which GPU.
inline constexpr std::uint64_t kMostGpusDrawn = 64;
inline constexpr std::size_t kMostJobsDrawn = 500;

/// Returns whether a page shows which job had which GPU.
[[nodiscard]] inline bool has_gantt(const scheduling::Fleet& fleet, std::size_t jobs) {
  return fleet.gpus() <= kMostGpusDrawn && jobs <= kMostJobsDrawn;
}

/// Returns the row of a simulation; `with_jobs`: also what became of each job.
[[nodiscard]] ScheduleRow schedule_row(const scheduling::Fleet& fleet,
                                       std::span<const scheduling::Job> jobs,
                                       const scheduling::SimulationResult& result, bool with_jobs);

/// Returns the results as a table for the terminal, and which policies were left out.
[[nodiscard]] std::string schedule_text(const ScheduleResults& results,
                                        const report::Terminal& terminal);

/// Returns the results as JSON; docs/reference/schemas/schedule.json.
[[nodiscard]] nlohmann::ordered_json schedule_json(const ScheduleResults& results,
                                                   const report::Provenance& provenance);

/// Returns an HTML page with a table and plots for each table of jobs and fleet.
[[nodiscard]] std::string schedule_page(const ScheduleResults& results,
                                        const report::Provenance& provenance);

/// Returns a CSV text with a line for each job of each row.
[[nodiscard]] std::string schedule_job_lines(std::span<const ScheduleRow> rows);

}  // namespace gpemu::tools
