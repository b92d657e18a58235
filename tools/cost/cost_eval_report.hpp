// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "gpemu/calibrate/evaluate.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/report/terminal.hpp"

namespace gpemu::tools {

/// How far a protocol's predictions are from measured steps. The references must outlive it.
struct EvaluatedSteps {
  const calibrate::JoinedRecordings& recorded;
  const std::vector<calibrate::CalibratedGpu>& gpus;
  calibrate::Protocol protocol;
  const std::vector<calibrate::PredictedStep>& steps;
  std::vector<double> bars;  ///< of each step; calibrate::crossed_bars().
};

/// The errors of some steps, as shares; of forward and backward together unless a phase is named.
struct GroupErrors {
  std::string name;
  std::size_t steps = 0;
  double mean = 0, median = 0, p90 = 0, worst = 0;  ///< of the absolute errors.
  double bias = 0;                                  ///< the mean error.
  double forward = 0, backward = 0;                 ///< the mean absolute errors of the phases.
  double bar = 0;                                   ///< the mean bar.
  double within = 0;                                ///< the share of steps within their bars.
};

/// The properties by which errors_by() groups steps.
inline constexpr std::array<std::string_view, 4> kEvaluationGroups = {"gpu", "family", "model",
                                                                      "batch"};

/// Returns the errors of each group, by name or batch. Requires: `group` is one of
/// kEvaluationGroups.
[[nodiscard]] std::vector<GroupErrors> errors_by(const EvaluatedSteps& evaluated,
                                                 const std::string& group);

/// Returns the GPUs whose stated bars contain too few or too many of their steps.
[[nodiscard]] std::vector<std::string> wrong_bars(const EvaluatedSteps& evaluated);

/// Returns errors_by() as a table, and below it the mean of the groups and wrong_bars(). Requires:
/// there are steps.
[[nodiscard]] std::string evaluation_text(const EvaluatedSteps& evaluated, const std::string& group,
                                          const report::Terminal& terminal);

/// Returns each step with its error and its bar. Units: ms.
[[nodiscard]] nlohmann::json evaluation_json(const EvaluatedSteps& evaluated);

/// Sets the bar of each GPU that follows from a protocol's steps; no bar follows from kInSample.
/// Shape of `bars`: [GPUs].
void set_bars(const std::vector<calibrate::CalibratedGpu>& gpus,
              const std::vector<calibrate::PredictedStep>& steps, calibrate::Protocol protocol,
              std::vector<profile::CalibrationBars>& bars);

}  // namespace gpemu::tools
