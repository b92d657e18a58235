// SPDX-License-Identifier: Apache-2.0
#include "policies/time_fractions.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "linear_program.hpp"

namespace gpemu::scheduling {
namespace {

using Term = LinearProgram::Term;

/// Jobs that are equal for max-min fairness: any optimum stays one if they share what they get.
struct EqualJobs {
  std::uint32_t gpus = 1;
  std::vector<double> gains;      ///< by kind.
  std::vector<std::size_t> jobs;  ///< their places.
};

/// Returns a job's speed on each kind, relative to that with the fleet's average GPU; empty if it
/// can run nowhere.
std::vector<double> relative_speeds(std::span<const double> gpus, const TimeDemand& job) {
  const double all = std::reduce(gpus.begin(), gpus.end());
  double average = 0;
  for (std::size_t kind = 0; kind < gpus.size(); ++kind) {
    average += job.speeds[kind] * gpus[kind] / all;
  }
  std::vector<double> relative;
  if (average == 0) return relative;
  constexpr double kSteps = 1e9;  // Jobs of one model are equal, whatever rounding does.
  for (const double speed : job.speeds) {
    relative.push_back(std::round(speed / average * kSteps) / kSteps);
  }
  return relative;
}

std::vector<EqualJobs> equal_jobs(std::span<const double> gpus, std::span<const TimeDemand> jobs) {
  std::map<std::pair<std::uint32_t, std::vector<double>>, std::size_t> places;
  std::vector<EqualJobs> all;
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    std::vector<double> gains = relative_speeds(gpus, jobs[job]);
    if (gains.empty()) continue;
    const auto [place, is_new] = places.try_emplace({jobs[job].gpus, gains}, all.size());
    if (is_new) all.push_back({.gpus = jobs[job].gpus, .gains = std::move(gains), .jobs = {}});
    all[place->second].jobs.push_back(job);
  }
  return all;
}

/// Max-min fairness as a linear program. Its first variable is the least speed.
class MaxMinProgram {
 public:
  /// With `least`, that is the least speed, and the sum of speeds is to be as great as possible.
  MaxMinProgram(std::span<const double> gpus, const std::vector<EqualJobs>& classes,
                std::optional<double> least);

  [[nodiscard]] std::optional<std::vector<double>> solve() const { return program_.solve(); }
  /// Returns the variable of a class's time on a kind; 0 if it has none there.
  [[nodiscard]] std::size_t variable(std::size_t of_class, std::size_t kind) const {
    return variables_[of_class][kind];
  }

 private:
  LinearProgram program_;
  std::vector<std::vector<std::size_t>> variables_;
};

MaxMinProgram::MaxMinProgram(std::span<const double> gpus, const std::vector<EqualJobs>& classes,
                             std::optional<double> least) {
  const std::size_t least_speed = program_.add_variable(least ? 0 : 1);
  if (least) program_.add_row({{.variable = least_speed, .factor = 1}}, *least, kNoLimit);
  std::vector<std::vector<Term>> used(gpus.size());
  for (const EqualJobs& same : classes) {
    const auto count = static_cast<double>(same.jobs.size());
    std::vector<Term> speed{{.variable = least_speed, .factor = -1}};
    std::vector<Term> time;
    variables_.emplace_back(gpus.size());
    for (std::size_t kind = 0; kind < gpus.size(); ++kind) {
      if (same.gains[kind] == 0) continue;
      const double gain = same.gains[kind] * same.gpus;
      const std::size_t added = program_.add_variable(least ? gain : 0, count);
      variables_.back()[kind] = added;
      speed.push_back({.variable = added, .factor = gain / count});
      time.push_back({.variable = added, .factor = 1});
      used[kind].push_back({.variable = added, .factor = static_cast<double>(same.gpus)});
    }
    program_.add_row(std::move(speed), 0, kNoLimit);
    program_.add_row(std::move(time), -kNoLimit, count);
  }
  for (std::size_t kind = 0; kind < gpus.size(); ++kind) {
    program_.add_row(std::move(used[kind]), -kNoLimit, gpus[kind]);
  }
}

TimeFractions nothing_for(std::span<const double> gpus, std::span<const TimeDemand> jobs) {
  return TimeFractions(jobs.size(), std::vector<double>(gpus.size()));
}

/// How long jobs take until they end, by job and kind, in a unit. Whatever the fractions are, the
/// last job does not end before `least`.
struct RemainingTimes {
  TimeFractions times;
  double least = 0;
};

/// The unit is the time of the longest job where it is fastest.
RemainingTimes remaining_times(std::span<const double> gpus, std::span<const TimeDemand> jobs) {
  RemainingTimes remaining{.times = nothing_for(gpus, jobs), .least = 1};
  double unit = 0;
  double gpu_s = 0;
  for (const TimeDemand& job : jobs) {
    const double fastest = std::ranges::max(job.speeds);
    if (fastest == 0) continue;
    unit = std::max(unit, job.iterations_left / fastest);
    gpu_s += job.iterations_left / fastest * job.gpus;
  }
  if (unit == 0) return remaining;
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    for (std::size_t kind = 0; kind < gpus.size(); ++kind) {
      const double speed = jobs[job].speeds[kind];
      if (speed > 0) remaining.times[job][kind] = jobs[job].iterations_left / speed / unit;
    }
  }
  const double all = std::reduce(gpus.begin(), gpus.end());
  remaining.least = std::max(1.0, gpu_s / unit / all);
  return remaining;
}

/// Returns groups of jobs that do the same share of what they have left on each kind. Jobs whose
/// speeds have the same ratios are one, unless a job would take longer than all on its slowest
/// kind: then it may have to be on a faster one for more of the time than the others.
std::vector<EqualJobs> groups_for_makespan(std::span<const double> gpus,
                                           std::span<const TimeDemand> jobs,
                                           const RemainingTimes& remaining) {
  std::vector<EqualJobs> groups;
  for (EqualJobs& same : equal_jobs(gpus, jobs)) {
    const auto is_long = [&](std::size_t job) {
      return std::ranges::max(remaining.times[job]) > remaining.least;
    };
    for (const std::size_t job : same.jobs) {
      if (!is_long(job)) continue;
      groups.push_back({.gpus = same.gpus, .gains = same.gains, .jobs = {job}});
    }
    std::erase_if(same.jobs, is_long);
    if (!same.jobs.empty()) groups.push_back(std::move(same));
  }
  return groups;
}

}  // namespace

TimeFractions max_min_fractions(std::span<const double> gpus, std::span<const TimeDemand> jobs) {
  TimeFractions fractions = nothing_for(gpus, jobs);
  const std::vector<EqualJobs> classes = equal_jobs(gpus, jobs);
  if (classes.empty()) return fractions;
  const auto first = MaxMinProgram(gpus, classes, std::nullopt).solve();
  if (!first) return fractions;
  // The solver is exact to some digits; a least speed slightly too great would have no solution.
  constexpr double kExact = 1 - 1e-9;
  const MaxMinProgram program(gpus, classes, first->front() * kExact);
  const std::vector<double> values = program.solve().value_or(*first);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto count = static_cast<double>(classes[i].jobs.size());
    for (std::size_t kind = 0; kind < gpus.size(); ++kind) {
      const std::size_t variable = program.variable(i, kind);
      if (variable == 0) continue;
      for (const std::size_t job : classes[i].jobs) fractions[job][kind] = values[variable] / count;
    }
  }
  return fractions;
}

TimeFractions blind_max_min_fractions(std::span<const double> gpus,
                                      std::span<const TimeDemand> jobs) {
  const double all = std::reduce(gpus.begin(), gpus.end());
  std::vector<TimeDemand> equally_fast;
  for (const TimeDemand& job : jobs) equally_fast.push_back({.gpus = job.gpus, .speeds = {1}});
  const TimeFractions of_any = max_min_fractions(std::vector{all}, equally_fast);
  TimeFractions fractions = nothing_for(gpus, jobs);
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    for (std::size_t kind = 0; kind < gpus.size(); ++kind) {
      fractions[job][kind] = of_any[job][0] * gpus[kind] / all;
    }
  }
  return fractions;
}

TimeFractions makespan_fractions(std::span<const double> gpus, std::span<const TimeDemand> jobs) {
  TimeFractions fractions = nothing_for(gpus, jobs);
  const RemainingTimes remaining = remaining_times(gpus, jobs);
  LinearProgram program;
  const std::size_t share_of_all = program.add_variable(1, 1 / remaining.least);
  std::vector<std::vector<Term>> used(gpus.size());
  const std::vector<EqualJobs> groups = groups_for_makespan(gpus, jobs, remaining);
  for (const EqualJobs& group : groups) {
    std::vector<Term> share{{.variable = share_of_all, .factor = -1}};
    std::vector<Term> time;
    for (std::size_t kind = 0; kind < gpus.size(); ++kind) {
      if (group.gains[kind] == 0) continue;
      double sum = 0;
      for (const std::size_t job : group.jobs) sum += remaining.times[job][kind];
      const std::size_t added = program.add_variable(0);
      share.push_back({.variable = added, .factor = 1});
      time.push_back({.variable = added, .factor = sum});
      used[kind].push_back({.variable = added, .factor = sum * group.gpus});
    }
    program.add_row(std::move(share), 0, 0);
    if (group.jobs.size() == 1) program.add_row(std::move(time), -kNoLimit, 1);
  }
  for (std::size_t kind = 0; kind < gpus.size(); ++kind) {
    program.add_row(std::move(used[kind]), -kNoLimit, gpus[kind]);
  }
  const auto values = program.solve();
  if (!values) return fractions;
  std::size_t next = share_of_all + 1;
  for (const EqualJobs& group : groups) {
    for (std::size_t kind = 0; kind < gpus.size(); ++kind) {
      if (group.gains[kind] == 0) continue;
      for (const std::size_t job : group.jobs) {
        fractions[job][kind] = (*values)[next] * remaining.times[job][kind];
      }
      ++next;
    }
  }
  return fractions;
}

TimeFractions fifo_fractions(std::span<const double> gpus, std::span<const TimeDemand> jobs) {
  TimeFractions fractions = nothing_for(gpus, jobs);
  std::vector<double> left(gpus.begin(), gpus.end());
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    std::optional<std::size_t> best;
    for (std::size_t kind = 0; kind < gpus.size(); ++kind) {
      if (left[kind] < jobs[job].gpus) continue;
      if (!best || jobs[job].speeds[kind] > jobs[job].speeds[*best]) best = kind;
    }
    if (!best) break;
    if (jobs[job].speeds[*best] == 0) continue;
    left[*best] -= jobs[job].gpus;
    fractions[job][*best] = 1;
  }
  return fractions;
}

}  // namespace gpemu::scheduling
