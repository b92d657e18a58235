// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/cost/estimate.hpp"
#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/predict/steps.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/record/program_work.hpp"

namespace gpemu::predict {

/// What a part of a step's time goes into.
enum class StepLimit : std::uint8_t {
  kCompute,  ///< kernels that arithmetic bounds.
  kMemory,   ///< kernels that the memory's bandwidth bounds.
  kLatency,  ///< kernels so small that they take what any kernel takes.
  kCopy,     ///< copies over the link while no kernel runs.
  kHost,     ///< neither: the host has asked for nothing yet, or waits.
};
inline constexpr int kStepLimitCount = 5;
inline constexpr std::array<std::string_view, kStepLimitCount> kStepLimitNames = {
    "compute", "memory bandwidth", "kernel latency", "copies", "host launch"};

/// What the operations of one class take in a step.
struct ClassTime {
  cost::OperationClass operation_class = cost::OperationClass::kOther;
  int operations = 0;
  Duration time{};
};

/// How long a training step takes on a GPU.
struct StepPrediction {
  cost::Estimate time;                            ///< of a step among many.
  Duration host{};                                ///< what the host takes to ask for it.
  Duration busy{};                                ///< kernels run.
  std::array<Duration, kStepLimitCount> parts{};  ///< by StepLimit; sum to the step's time.
  std::vector<ClassTime> classes;                 ///< the longest first.

  /// Returns what the largest part of the time goes into.
  [[nodiscard]] StepLimit limit() const;
};

/// Predicts a step on a GPU of what was recorded on another, `recorded`: operations are priced by
/// cost::OperationCostModel, copies scaled by the links' rates. The host asks for one operation
/// after the other; where the program waited for the GPU, it waits for what it waited for then.
/// Kernels run one at a time in the order in which they were asked for, copies beside them; work of
/// one stream follows in its order. Steps follow each other without a pause: data loading is not
/// modelled.
[[nodiscard]] StepPrediction predict_step(const record::ProgramWork& work, const StepRange& step,
                                          const profile::GpuSpec& recorded,
                                          const profile::GpuSpec& gpu);

}  // namespace gpemu::predict
