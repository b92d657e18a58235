// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/cost/estimate.hpp"
#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/cost/shared_speed.hpp"
#include "gpemu/predict/steps.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/record/program_work.hpp"

namespace gpemu::predict {

/// The causes of a step's time.
enum class StepLimit : std::uint8_t {
  kCompute,  ///< kernels limited by arithmetic.
  kMemory,   ///< kernels limited by memory bandwidth.
  kLatency,  ///< kernels so small that they take the time of any kernel.
  kCopy,     ///< copies over the link while no kernel runs.
  kHost,     ///< neither: the host has not asked for any work yet, or waits.
};
inline constexpr int kStepLimitCount = 5;
inline constexpr std::array<std::string_view, kStepLimitCount> kStepLimitNames = {
    "compute", "memory bandwidth", "kernel latency", "copies", "host launch"};

/// The time of one class of operations in a step.
struct ClassTime {
  kernels::OperationClass operation_class = kernels::OperationClass::kOther;
  int operations = 0;
  Duration time{};
};

/// How long a training step takes on a GPU.
struct StepPrediction {
  cost::Estimate time;  ///< of a step among many.
  Duration host{};      ///< the host's time to ask for it.
  Duration busy{};      ///< kernels run.
  /// What the kernels' bytes take at the full rate of the GPU's memory, as far as kernels run.
  Duration traffic{};
  int kernels = 0;
  double kernel_error = 0;                        ///< the kernels' mean bar, as in cost::Estimate.
  std::array<Duration, kStepLimitCount> parts{};  ///< by StepLimit; sum to the step's time.
  std::vector<ClassTime> classes;                 ///< the longest first.

  /// Returns the cause of the largest part of the time.
  [[nodiscard]] StepLimit limit() const;
};

/// Predicts a step on a GPU from a recording on another GPU, `recorded`. cost::OperationCostModel
/// prices operations; copies scale with the links' rates. The host asks for one operation after the
/// other and waits for the GPU where it waited in the recording. Kernels run one at a time, in the
/// order in which they were asked for, and copies run beside them; the work of a stream runs in
/// order. Steps follow each other without a pause: data loading is not modelled.
[[nodiscard]] StepPrediction predict_step(const record::ProgramWork& work, const StepRange& step,
                                          const profile::GpuSpec& recorded,
                                          const profile::GpuSpec& gpu);

/// What a step does with its GPU, for cost::shared_speeds(): as predicted, and if kernels differ
/// from that by as much as their bars allow and the host by a factor of 2, so that the GPU is busy
/// for as little or as much of the time as possible.
struct StepLoad {
  cost::GpuLoad predicted, least, most;
};

/// Kernels that are too small to be limited by arithmetic or memory count as filling no
/// multiprocessor.
[[nodiscard]] StepLoad gpu_load(const StepPrediction& step);

/// What a collective takes from the arrival of the last rank.
struct CollectivePrice {
  Duration time{};
  double relative_error = 0;  ///< as in cost::Estimate.
};
using PriceCollective = std::function<CollectivePrice(const record::CollectiveWork&)>;

/// A step of one of several ranks that all do the same. It takes as long as that of the slowest of
/// them, and kernels take longer while collectives run (gpemu/step/rank_slowdown.hpp).
struct ParallelStep {
  /// Its bar has those of the collectives and of the slowest rank. Its parts have their exposed
  /// time, and what several ranks take longer, as that of the host.
  StepPrediction step;
  Duration collectives{};  ///< the time in which some are under way,
  Duration exposed{};      ///< and that in which no kernel runs meanwhile.
  /// The step's time if collectives take as long, and kernels as short, as their bars allow, and
  /// the slowest rank and kernels beside collectives are as slow as the slowest that were measured;
  /// and if it is the other way round, without a slowest rank and slower kernels. Ratios of steps
  /// with different numbers of ranks lie between the ratios of these.
  Duration with_slow_collectives{}, with_slow_kernels{};
};

/// Predicts a step as predict_step() does, with the collectives in it. They wait for the events for
/// which their streams wait, and other streams wait for them.
[[nodiscard]] ParallelStep predict_parallel_step(const record::ProgramWork& work,
                                                 const StepRange& step,
                                                 const profile::GpuSpec& recorded,
                                                 const profile::GpuSpec& gpu,
                                                 const PriceCollective& price);

}  // namespace gpemu::predict
