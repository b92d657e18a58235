// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpemu::scheduling {

/// A job, for who shares the time of GPUs of several kinds. It has all its GPUs of one kind at
/// once.
struct TimeDemand {
  std::uint32_t gpus = 1;
  std::vector<double> speeds;  ///< iterations per second, by kind; 0: it cannot run there.
  double iterations_left = 0;  ///< greater than 0.
};

/// By job and kind: in which share of the time the job is to run on GPUs of that kind. Those of a
/// job sum to at most 1, those of a kind, times the GPUs of the jobs, to at most its GPUs.
using TimeFractions = std::vector<std::vector<double>>;

// Gavel's policies (Narayanan et al., "Heterogeneity-aware cluster scheduling policies for deep
// learning workloads", OSDI'20). `gpus` are those of each kind. A job that can run nowhere gets
// nothing.

/// Max-min fairness: the least of the jobs' speeds is as great as possible; among those fractions,
/// the sum of the speeds is. A job's speed counts relative to that with the fleet's average GPU,
/// times its GPUs.
[[nodiscard]] TimeFractions max_min_fractions(std::span<const double> gpus,
                                              std::span<const TimeDemand> jobs);

/// The same, as if all kinds were equally fast for all jobs, each of which gets its part of all.
[[nodiscard]] TimeFractions blind_max_min_fractions(std::span<const double> gpus,
                                                    std::span<const TimeDemand> jobs);

/// The last of these jobs ends as early as possible.
[[nodiscard]] TimeFractions makespan_fractions(std::span<const double> gpus,
                                               std::span<const TimeDemand> jobs);

/// One job after the other gets the kind on which it is fastest, of those that have enough GPUs
/// left, all the time; those behind one for which there are not enough get nothing.
[[nodiscard]] TimeFractions fifo_fractions(std::span<const double> gpus,
                                           std::span<const TimeDemand> jobs);

}  // namespace gpemu::scheduling
