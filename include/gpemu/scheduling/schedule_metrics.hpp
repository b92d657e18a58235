// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/simulator.hpp"

namespace gpemu::scheduling {

/// The figures by which simulations are compared. Units: seconds.
struct ScheduleMetrics {
  double average_jct_s = 0;
  double p40_jct_s = 0;
  double median_jct_s = 0;
  double p90_jct_s = 0;
  double p95_jct_s = 0;
  double p99_jct_s = 0;
  double makespan_s = 0;      ///< from the first arrival to the last end.
  double average_wait_s = 0;  ///< the time without GPUs, from arrival to end.
  double utilization = 0;     ///< the share of the GPUs' time, over the makespan, that jobs held.
  double preemptions = 0;     ///< how often jobs lost their GPUs before they ended.
};

/// Returns the figures. The percentile p of n sorted values is the one with the index floor(p n).
///
/// Requires: at least one job; `result` is that of these jobs and this fleet.
[[nodiscard]] ScheduleMetrics metrics_of(const Fleet& fleet, std::span<const Job> jobs,
                                         const SimulationResult& result);

/// How much of the time for which jobs held GPUs, cores or memory rests on one evidence.
struct EvidenceShare {
  std::string evidence;  ///< as the table of speeds has it; else what was stated.
  double share = 0;      ///< of 1.
};

/// Returns the shares, largest first. Requires: `result` is that of these jobs.
[[nodiscard]] std::vector<EvidenceShare> evidence_of(std::span<const Job> jobs,
                                                     const SimulationResult& result);

/// A figure as results name it.
struct ScheduleFigure {
  std::string_view name;     ///< in JSON, and in the expressions of experiments.
  std::string_view title;    ///< of a column of a table, without its unit; empty: in none.
  std::string_view unit;     ///< "s", "%", or empty for a number.
  std::string_view meaning;  ///< in one line, for lists.
  double (*of)(const ScheduleMetrics& metrics);
};

/// Returns all figures, in the order in which tables have them.
[[nodiscard]] std::span<const ScheduleFigure> schedule_figures();

}  // namespace gpemu::scheduling
