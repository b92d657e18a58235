// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/shared_speed.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "gpemu/base/error.hpp"

namespace gpemu::cost {
namespace {

/// A set of jobs: bit i is job i.
using JobSet = std::uint32_t;

bool has(JobSet set, std::size_t job) {
  return ((set >> job) & 1U) != 0;
}

/// Returns for how long a job keeps the GPU in its turn. Before Pascal, a slice ends with the
/// kernel that runs at its end, half of which remains on average.
double turn_seconds(const GpuLoad& job, const SharedGpu& gpu) {
  const double slice = to_seconds(gpu.time_slice);
  return gpu.interrupts_kernels ? slice : slice + to_seconds(job.kernel) / 2;
}

/// Returns the rate of a job while those of `set` have the GPU, it among them, as a share of its
/// rate alone.
double rate_of(std::size_t job, JobSet set, std::span<const GpuLoad> jobs, const SharedGpu& gpu) {
  double others_turns = 0, widths = 0, others_memory = 0;
  const auto memory = [](const GpuLoad& load) {
    return load.busy > 0 ? std::min(load.memory / load.busy, 1.0) : 0;
  };
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (!has(set, i)) continue;
    widths += jobs[i].width;
    if (i == job) continue;
    others_turns += turn_seconds(jobs[i], gpu);
    others_memory += memory(jobs[i]);
  }
  if (gpu.side_by_side) {
    // The scarcer of multiprocessors and memory decides, and the memory serves all alike.
    const double multiprocessors = std::max(widths, 1.0);
    return 1 / std::max(multiprocessors, 1 + memory(jobs[job]) * others_memory);
  }
  if (std::has_single_bit(set)) return 1;
  const double own = turn_seconds(jobs[job], gpu);
  const double all = own + others_turns;
  const double share = all > 0 ? own / all : 1.0 / std::popcount(set);
  return share * (1 - gpu.switch_share);
}

/// Returns the probabilities of the states of a Markov chain from the rates between them, by the
/// algorithm of Grassmann, Taksar and Heyman, which subtracts nothing. Shape of `rates`: (states,
/// states). Requires: each state but the first has a way to one before it.
std::vector<double> stationary(std::vector<double> rates, std::size_t states) {
  const auto at = [&](std::size_t from, std::size_t to) -> double& {
    return rates[from * states + to];
  };
  for (std::size_t last = states - 1; last > 0; --last) {
    double out = 0;
    for (std::size_t to = 0; to < last; ++to) out += at(last, to);
    for (std::size_t from = 0; from < last; ++from) {
      at(from, last) /= out;
      for (std::size_t to = 0; to < last; ++to) at(from, to) += at(from, last) * at(last, to);
    }
  }
  std::vector<double> probabilities(states, 0);
  probabilities[0] = 1;
  double sum = 1;
  for (std::size_t state = 1; state < states; ++state) {
    for (std::size_t from = 0; from < state; ++from) {
      probabilities[state] += probabilities[from] * at(from, state);
    }
    sum += probabilities[state];
  }
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

}  // namespace

double gpu_need(const GpuLoad& load) {
  const double busy = std::clamp(load.busy, 0.0, 1.0);
  const double critical = busy * busy;
  if (!load.working) return critical;
  return (critical + std::sqrt(busy * std::clamp(*load.working, 0.0, busy))) / 2;
}

std::vector<double> shared_speeds(std::span<const GpuLoad> jobs, const SharedGpu& gpu) {
  GPEMU_CHECK(!jobs.empty() && jobs.size() <= kMostSharers, "1 to 8 jobs share a GPU");
  // Jobs that alternate; the others never need the GPU, or always.
  std::vector<std::size_t> free;
  std::vector<double> needs;
  JobSet always = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    needs.push_back(gpu_need(jobs[i]));
    if (needs[i] >= 1) always |= JobSet{1} << i;
    if (needs[i] > 0 && needs[i] < 1) free.push_back(i);
  }
  const std::size_t states = std::size_t{1} << free.size();
  const auto set_of = [&](std::size_t state) {
    JobSet set = always;
    for (std::size_t bit = 0; bit < free.size(); ++bit) {
      if (has(static_cast<JobSet>(state), bit)) set |= JobSet{1} << free[bit];
    }
    return set;
  };
  std::vector<double> rates(states * states, 0);
  for (std::size_t state = 0; state < states; ++state) {
    for (std::size_t bit = 0; bit < free.size(); ++bit) {
      const std::size_t job = free[bit];
      const bool on_gpu = has(static_cast<JobSet>(state), bit);
      rates[state * states + (state ^ (std::size_t{1} << bit))] =
          on_gpu ? rate_of(job, set_of(state), jobs, gpu) / needs[job] : 1 / (1 - needs[job]);
    }
  }
  const std::vector<double> probabilities = stationary(std::move(rates), states);
  std::vector<double> speeds(jobs.size(), 0);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (needs[i] <= 0) speeds[i] = 1;
    for (std::size_t state = 0; needs[i] > 0 && state < states; ++state) {
      const JobSet set = set_of(state);
      if (has(set, i)) speeds[i] += probabilities[state] * rate_of(i, set, jobs, gpu) / needs[i];
    }
  }
  return speeds;
}

std::vector<SpeedEstimate> estimate_shared_speeds(std::span<const GpuLoad> jobs,
                                                  const SharedGpu& gpu) {
  const double pair = gpu.side_by_side ? kSideBySideBar : kTimeSlicesBar;
  const double bar = std::pow(1 + pair, static_cast<double>(jobs.size()) - 1) - 1;
  std::vector<SpeedEstimate> estimates;
  for (const double speed : shared_speeds(jobs, gpu)) {
    estimates.push_back({.speed = speed, .evidence = Evidence::kAnalytic, .relative_error = bar});
  }
  return estimates;
}

}  // namespace gpemu::cost
