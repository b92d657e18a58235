// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/scheduling/job.hpp"

namespace gpemu::tools {

/// What became of a job of a table in a real queue. Units: seconds of the table's time; negative:
/// not yet.
struct ReplayedJob {
  double start_s = -1;
  double end_s = -1;
  int evictions = 0;
};

/// How a report names what it compares with the simulation.
struct ReplayWords {
  std::string_view where;      ///< e.g. "in pods".
  std::string_view evictions;  ///< e.g. "whose pods were evicted".
};

/// Returns the mean JCT of a replay beside that of the simulation, and each job that does not start
/// in its place of the simulation with why. All are by JobIndex.
[[nodiscard]] std::string replay_report(std::span<const scheduling::Job> jobs,
                                        std::span<const ReplayedJob> replayed,
                                        std::span<const scheduling::JobState> simulated,
                                        const ReplayWords& words);

/// Returns a CSV table of what became of each job.
[[nodiscard]] std::string replayed_jobs_table(std::span<const scheduling::Job> jobs,
                                              std::span<const ReplayedJob> replayed,
                                              std::span<const scheduling::JobState> simulated);

}  // namespace gpemu::tools
