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
  double makespan_s = 0;       ///< from the first arrival to the last end.
  double average_wait_s = 0;   ///< the time without GPUs, from arrival to end.
  double average_queue_s = 0;  ///< of this, the time before a job had GPUs for the first time.
  double utilization = 0;      ///< the share of the GPUs' time, over the makespan, that jobs held.
  /// The same of the time in which one job or more waited; 1 if none ever did.
  double utilization_waited = 0;
  /// Finish-time fairness: a job's JCT divided by the time that it would need with 1 / n of the
  /// fleet, where n is how many jobs there were, on average, between its arrival and its end; so
  /// above 1, sharing the fleet is unfair to it. With 1 / n of each kind, a job that needs g GPUs
  /// has those of kind k, G_k in number, for the fraction G_k / (n g) of the time, and never more
  /// than one set of GPUs at a time: if the fractions add up to more than 1, they are divided by
  /// their sum. Source: Themis (Mahajan et al., NSDI'20) for the ratio and n, Gavel (Narayanan et
  /// al., OSDI'20) for the fractions.
  double average_rho = 0;
  double worst_rho = 0;    ///< the greatest.
  double preemptions = 0;  ///< how often jobs lost their GPUs before they ended.
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
  int decimals = 1;          ///< in tables, in that unit.
  std::string_view meaning;  ///< in one line, for lists.
  double (*of)(const ScheduleMetrics& metrics);
  bool only_on_pages = false;  ///< a terminal has no room for its column.
};

/// Returns all figures, in the order in which tables have them.
[[nodiscard]] std::span<const ScheduleFigure> schedule_figures();

}  // namespace gpemu::scheduling
