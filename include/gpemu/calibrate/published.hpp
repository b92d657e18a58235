// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/calibrate/fit.hpp"
#include "gpemu/cost/estimate.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/step/published_steps.hpp"

namespace gpemu::calibrate {

/// The family of a published model, e.g. "resnext" for "gluon_resnext50_32x4d": the letters of its
/// first word that is not the name of a port or of a data set.
[[nodiscard]] std::string_view published_family(std::string_view model);

/// Whether a family of models takes no part in any fit: a quarter of them, chosen by a hash of
/// their names before anything was fitted.
[[nodiscard]] bool is_held_out(std::string_view family);

/// A published step, and what the model says of it.
struct PublishedAnswer {
  int step = 0;  ///< its index.
  std::string gpu;
  double measured_seconds = 0;
  double predicted_seconds = 0;
  double bar = 0;  ///< as in cost::Estimate.
  /// The host's time to launch the step, and the GPU's time to run it, as shares of the answer.
  double host_share = 0, busy_share = 0;
  double unfitted_share = 0;  ///< of the answer: operations whose kind no fit knows.
  /// The parts of the GPU's time, as shares: by class, with depthwise and grouped convolutions
  /// apart.
  std::map<std::string, double> parts;

  /// As PredictedStep::error() and ::miss().
  [[nodiscard]] double error() const { return predicted_seconds / measured_seconds - 1; }
  [[nodiscard]] double miss() const;
};

/// Returns a GPU with the parameters of the nearest other one, if its own were fitted to its steps:
/// no step of the GPU takes part in its prediction, apart from the launch times of its host.
/// Errors: those of `find`.
[[nodiscard]] Result<profile::GpuSpec> without_own_steps(
    profile::GpuSpec gpu, const std::function<Result<profile::GpuSpec>(std::string_view)>& find);

/// Predicts a step as `gpemu predict` does, with the parameters in the GPU's specification: the
/// longer of what the GPU and its host need among many such steps; or, if the step copies from
/// pageable memory, as a queue that is empty when the copy ends.
[[nodiscard]] PublishedAnswer predict_published(const step::PublishedStep& step,
                                                const profile::GpuSpec& gpu);

/// Returns those single operations that ran on a GPU, as a fit compares them with its parameters.
[[nodiscard]] std::unique_ptr<Measurements> operation_times(
    std::span<const step::PublishedStep> operations, const profile::GpuSpec& gpu);

/// Returns the measured GPU whose parameters are the expected values for a GPU: that of its
/// generation (GenerationFacts::fit_start); without one, the A100; without TF32, the Quadro RTX
/// 6000, with products in 16 bits of the RTX 3090. The host is the GPU's own if its file has one.
/// Errors: those of `find`; kNotFound if such a GPU has no parameters.
[[nodiscard]] Result<profile::GpuSpec> start_of_fit(
    const profile::GpuSpec& gpu,
    const std::function<Result<profile::GpuSpec>(std::string_view)>& find);

/// Fits the device's parameters of a GPU to steps and operations that ran on it, from `start`, the
/// calibration of start_of_fit(). In 16 bits only, unless something was measured in FP32; then in
/// each kind of arithmetic that the GPU has. The host's parameters stay. `chosen` says
/// of each step whether it takes part. The caller fills in the command.
///
/// Errors: those of fit(); kNotFound if no step in 16 bits ran on the GPU.
[[nodiscard]] Result<profile::Calibration> calibrate_published(
    std::span<const step::PublishedStep> steps, profile::GpuSpec gpu,
    const profile::Calibration& start,
    const std::function<bool(const step::PublishedStep&)>& chosen);

/// Returns the bars of a GPU's calibration, which was fitted to published steps from `start`, for
/// each kind of arithmetic: those of the steps that ran on it and whose families are held out. If
/// those are too few, those of the steps of each family with parameters that are fitted to the
/// other families. In 16 bits only, unless it has all arithmetic. Steps in which direct
/// convolutions with groups and operations whose kind no fit knows take more than a tenth of the
/// time do not count, because these have bars of their own; nor do those that the host may limit,
/// by its bar. One batch of a model tells no more than others, and other GPUs differ as measured
/// ones do.
///
/// Errors: those of calibrate_published(); kNotFound if too few steps in 16 bits ran on the GPU.
[[nodiscard]] Result<profile::CalibrationBars> published_bars(
    std::span<const step::PublishedStep> steps, const profile::GpuSpec& gpu,
    const profile::Calibration& start);

}  // namespace gpemu::calibrate
