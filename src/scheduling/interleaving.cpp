// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/interleaving.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace gpemu::scheduling {
namespace {

/// How much longer an iteration of a group takes than its stages, by the number of jobs.
/// Source: itertime_overhead_list in simulator/jobs.py of github.com/Rivendile/Muri.
constexpr std::array<double, kMostInGroup + 1> kInterference{0, 1, 1.33 / 1.015, 1.5 / 1.015,
                                                             1.37 / 1.015};

/// Rounds of the pipeline that are computed until its period is known.
constexpr std::size_t kRounds = 2;
constexpr double kSamePeriod = 1e-3;

/// Returns the period of a pipeline of kMostInGroup slots, in each of which another job
/// communicates, computes and reads; a slot without a job is empty. A job may begin to read a slot
/// ahead.
double period_of(std::span<const Stages> jobs, std::span<const std::size_t> order) {
  constexpr std::size_t kSlots = kMostInGroup * kRounds;
  std::array<double, kSlots + 1> end{};
  const auto stage = [&](std::size_t slot, std::size_t which) {
    const std::size_t turn = slot % kMostInGroup;
    return turn < order.size() ? jobs[order[turn]][which] : -1;
  };
  for (std::size_t i = 0; i < kSlots; ++i) {
    double& next = end[i + 1];
    if (const double network = stage(i + 1, 2); network >= 0)
      next = std::max(next, end[i] + network);
    if (const double gpu = stage(i + 2, 1); gpu >= 0) next = std::max(next, end[i] + gpu);
    const double storage = stage(i + 3, 0);
    if (i > 0 && storage >= 0) next = std::max(next, end[i - 1] + storage);
    if (i < kMostInGroup) continue;
    const double period = next - end[i + 1 - kMostInGroup];
    const double before = end[i] - end[i - kMostInGroup];
    if (std::abs(period - before) <= kSamePeriod * std::max(period, before) && period > 0) {
      return period;
    }
  }
  return end[kSlots] - end[kSlots - kMostInGroup];
}

/// Two jobs may also take turns in two slots: one reads while the other computes and communicates.
double period_of_turns(const Stages& a, const Stages& b) {
  return std::max(a[0], b[1] + b[2]) + std::max(b[0], a[1] + a[2]);
}

}  // namespace

double interleaved_iteration_s(std::span<const Stages> jobs) {
  std::array<std::size_t, kMostInGroup> places{};
  const std::span<std::size_t> order(places.data(), jobs.size());
  std::iota(order.begin(), order.end(), 0);
  double best = std::numeric_limits<double>::infinity();
  do {
    best = std::min(best, period_of(jobs, order));
  } while (std::ranges::next_permutation(order).found);
  if (jobs.size() == 2) best = std::min(best, period_of_turns(jobs[0], jobs[1]));
  return best * kInterference[jobs.size()];
}

double iteration_beside_s(const Iteration& job, const Iteration& other) {
  const Stages& theirs = other.stages;
  // How long the other leaves storage, GPUs and network to a job in each of its iterations.
  const Stages gaps{theirs[1] + theirs[2], theirs[0] + theirs[2], theirs[0] + theirs[1]};
  if (std::ranges::min(gaps) <= 0) return job.time_s * 2;
  Stages left = job.stages;
  double iterations = std::floor(left[0] / gaps[0]);
  if (const double rest = std::fmod(left[0], gaps[0]); rest > 0) {
    ++iterations;  // In what is left of its last gap, it computes.
    left[1] -= std::min({left[1], theirs[2], gaps[0] - rest});
  }
  iterations += std::floor(left[1] / gaps[1]);
  if (const double rest = std::fmod(left[1], gaps[1]); rest > 0) {
    ++iterations;
    if (rest < theirs[0]) left[2] -= std::min(left[2], gaps[2] - rest);
  }
  iterations += std::floor(left[2] / gaps[2]);
  if (std::fmod(left[2], gaps[2]) > theirs[0]) ++iterations;
  return std::max(job.time_s, iterations * other.time_s);
}

}  // namespace gpemu::scheduling
