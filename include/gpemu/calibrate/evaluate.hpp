// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/calibrate/fit.hpp"
#include "gpemu/calibrate/joined_recordings.hpp"
#include "gpemu/step/published_steps.hpp"

namespace gpemu::calibrate {

/// How much a prediction may know about the measurement that it is compared with.
enum class Protocol : std::uint8_t {
  kInSample,   ///< fitted to the same steps.
  kFamilyOut,  ///< a family of models at a time is left out of the fit, on all GPUs.
  /// A GPU is left out. Its device parameters are those of the nearest GPU, with its own datasheet;
  /// its host parameters are fitted to its steps at batch 1 and 2, and the other steps are
  /// compared.
  kGpuOut,
  /// A twelfth of the models at a time is left out of the fit, on all GPUs. Their steps at batch 32
  /// correct the fit's predictions (StepTimes::predict_from), and the other batches are compared.
  kOneBatch,
};

inline constexpr std::array<std::string_view, 4> kProtocolNames = {"in-sample", "family-out",
                                                                   "gpu-out", "one-batch"};

/// One GPU's steps, and its specification.
struct CalibratedGpu {
  profile::GpuSpec spec;
  std::vector<StepTime> measured;
  /// Single operations. Those that ran on it take part in every fit of its parameters: they belong
  /// to no model.
  std::vector<step::PublishedStep> operations;
};

/// A step that was predicted under a protocol.
struct PredictedStep {
  int gpu = 0;  ///< indices of GPU, model and batch.
  int model = 0;
  int batch = 0;
  std::array<double, 2> measured_seconds{};  ///< forward, backward with optimizer.
  std::array<double, 2> predicted_seconds{};

  /// Returns predicted / measured - 1 of both phases together.
  [[nodiscard]] double error() const;
  /// Returns the factor between predicted and measured, the larger over the smaller, less 1. A bar
  /// (cost::Estimate) limits it.
  [[nodiscard]] double miss() const;
};

/// A model's family: its name up to the first digit or underscore, e.g. "resnext", "wide".
[[nodiscard]] std::string_view family_of(std::string_view model);

/// Fits and predicts under a protocol. `progress` is called after each fit with the number done and
/// the total. Deterministic. Errors: those of fit().
[[nodiscard]] Result<std::vector<PredictedStep>> evaluate(
    const JoinedRecordings& recorded, const std::vector<CalibratedGpu>& gpus, Protocol protocol,
    const std::function<void(int done, int all)>& progress = {});

}  // namespace gpemu::calibrate
