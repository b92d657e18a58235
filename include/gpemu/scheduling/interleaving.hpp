// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace gpemu::scheduling {

/// The most jobs that share their GPUs in a group: one for each kind of resource.
inline constexpr std::size_t kMostInGroup = 4;

/// The times of an iteration that a job spends on storage and processors, on GPUs, and on the
/// network.
using Stages = std::array<double, 3>;

/// Returns how long an iteration of each job of a group takes if they run on the same GPUs in
/// turns, so that while one computes, others read and communicate: that of the best order of the
/// jobs, with what the interference costs. Source: Muri (SIGCOMM'22), simulator/matching.py and
/// jobs.py, of which the time of each order and the factors for 2, 3 and 4 jobs are.
///
/// Requires: 2 to kMostInGroup jobs.
[[nodiscard]] double interleaved_iteration_s(std::span<const Stages> jobs);

/// What an iteration of a job consists of. Units: seconds.
struct Iteration {
  Stages stages{};
  double time_s = 0;  ///< with GPUs of its own; it may be more or less than its stages' sum.
};

/// Returns how long an iteration of a job takes that runs only while `other`, which has the same
/// GPUs, uses other resources: as many whole iterations of the other as its stages need. That is at
/// least its own time, and twice that if the stages are not known. Source: how Muri's simulator
/// (SIGCOMM'22, run_sim.py) models opportunistic jobs of AntMan.
[[nodiscard]] double iteration_beside_s(const Iteration& job, const Iteration& other);

}  // namespace gpemu::scheduling
