// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/cost/estimate.hpp"

namespace gpemu::cost {

/// What a job does with a GPU while it is alone on it. Shares of its time are from 0 to 1.
struct GpuLoad {
  double busy = 0;  ///< some kernel runs: NVML's utilization of the GPU.
  /// The GPU surely works for the job: NVML's utilization of its memory. Nothing: not known.
  std::optional<double> working;
  double memory = 0;  ///< the memory is read or written at its full rate.
  /// The mean share of the multiprocessors that its kernels fill while they run.
  double width = 1;
  Duration kernel{};  ///< the mean time of a kernel; matters before Pascal.
};

/// How jobs share a GPU.
struct SharedGpu {
  /// Kernels of several jobs run side by side, as with MPS; else jobs have the GPU by turns.
  bool side_by_side = false;
  /// The share of the time that goes to context switches while several jobs have work.
  double switch_share = 0;
  Duration time_slice{};
  /// A kernel ends with its time slice, as from Pascal on; before, the slice lasts until it ends.
  bool interrupts_kernels = true;
};

/// The most jobs on a GPU for which speeds are predicted.
inline constexpr std::size_t kMostSharers = 8;

/// Returns the share of its time in which a job alone needs the GPU, so that it loses time if
/// another one has it: busy^2 and, if the lower bound `working` is known, the mean of that and of
/// the geometric mean of both bounds. docs/design/interference.md has the reasons.
[[nodiscard]] double gpu_need(const GpuLoad& load);

/// Returns the speed of each job beside the others, divided by its speed alone. Each one alternates
/// between time without the GPU and time with it, both of random length;
/// docs/design/interference.md has the equations. A pure function. Requires: 1 to kMostSharers
/// jobs. Complexity: 8^jobs.
[[nodiscard]] std::vector<double> shared_speeds(std::span<const GpuLoad> jobs,
                                                const SharedGpu& gpu);

/// A job's speed beside others, divided by that alone.
struct SpeedEstimate {
  double speed = 1;
  Evidence evidence = Evidence::kAnalytic;
  double relative_error = 0;  ///< as in Estimate.
};

/// The error bars of shared_speeds() for two jobs. Source: what a model that knows each job, but
/// not how the two models disturb each other, misses on the pairs of
/// evidence/published/sharing/pairs.csv: those of the K80 and the P100 (by turns), and of the V100
/// (side by side). `gpemu cost pairs --eval` prints them.
inline constexpr double kTimeSlicesBar = 0.233;
inline constexpr double kSideBySideBar = 0.914;

/// Returns shared_speeds() with error bars: each further job adds that of a pair.
[[nodiscard]] std::vector<SpeedEstimate> estimate_shared_speeds(std::span<const GpuLoad> jobs,
                                                                const SharedGpu& gpu);

}  // namespace gpemu::cost
