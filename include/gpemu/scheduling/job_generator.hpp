// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/job.hpp"

namespace gpemu::scheduling {

/// When jobs arrive.
enum class ArrivalPattern : std::uint8_t {
  kPoisson,  ///< at random, always equally often.
  kDiurnal,  ///< at random; how often follows a sine with a period of 24 h, least at the begin.
  kBursts,   ///< several at once, at random times.
};

/// Values, each with the weight with which it is drawn.
template <typename Value>
using Weights = std::vector<std::pair<Value, double>>;

/// How jobs are made. Times are rounded to milliseconds, so that the same seed gives the same jobs
/// on every machine.
struct JobGeneratorOptions {
  std::size_t jobs = 1000;
  double jobs_per_hour = 10;  ///< on average.
  ArrivalPattern arrivals = ArrivalPattern::kPoisson;
  double swing = 0.8;      ///< of kDiurnal: the rate is the average times 1 - swing to 1 + swing.
  double burst_jobs = 10;  ///< of kBursts: jobs of a burst on average (geometric distribution).
  Weights<std::uint32_t> gpus{{1, 70}, {2, 10}, {4, 10}, {8, 10}};
  Weights<std::string> models;  ///< empty: jobs have none.
  double median_s = 1800;       ///< of durations, which are log-normal.
  double sigma = 1.5;           ///< standard deviation of the natural logarithm of a duration.
  /// If there are any, each job gets the demand, duration and model of one of these drawn
  /// at random, in place of those above (bootstrap).
  std::span<const Job> like;
  std::uint64_t seed = 0;
};

/// Returns jobs, sorted by arrival; the first arrives at 0.
///
/// Errors: kInvalidArgument if a number is out of its range.
[[nodiscard]] Result<std::vector<Job>> generate_jobs(const JobGeneratorOptions& options);

}  // namespace gpemu::scheduling
