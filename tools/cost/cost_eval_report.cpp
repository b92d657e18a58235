// SPDX-License-Identifier: Apache-2.0
#include "cost/cost_eval_report.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/calibrate/bars.hpp"
#include "gpemu/calibrate/coverage.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"

namespace gpemu::tools {
namespace {

using calibrate::PredictedStep;
using nlohmann::json;

/// Steps with their bars.
using Steps = std::vector<std::pair<PredictedStep, double>>;

double quantile(const std::vector<double>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(share * last))];
}

/// Requires: there are steps.
GroupErrors errors_of(const std::string& name, const Steps& steps) {
  GroupErrors errors{.name = name, .steps = steps.size()};
  const auto count = static_cast<double>(steps.size());
  std::vector<double> sizes;
  for (const auto& [step, bar] : steps) {
    const auto phase_error = [&step](std::size_t phase) {
      return std::abs(step.predicted_seconds[phase] / step.measured_seconds[phase] - 1);
    };
    sizes.push_back(std::abs(step.error()));
    errors.mean += sizes.back() / count;
    errors.bias += step.error() / count;
    errors.forward += phase_error(0) / count;
    errors.backward += phase_error(1) / count;
    errors.bar += bar / count;
    errors.within += (step.miss() <= bar ? 1 : 0) / count;
  }
  std::ranges::sort(sizes);
  errors.median = quantile(sizes, 0.5);
  errors.p90 = quantile(sizes, 0.9);
  errors.worst = sizes.back();
  return errors;
}

std::string group_of(const PredictedStep& step, const EvaluatedSteps& evaluated,
                     const std::string& group) {
  const std::string& model = evaluated.recorded.models[step.model];
  if (group == "gpu") return evaluated.gpus[step.gpu].spec.name;
  if (group == "family") return std::string(calibrate::family_of(model));
  if (group == "model") return model;
  return fmt::format("{:3}", step.batch);  // Pads the number, so that groups sort by batch.
}

std::string plural_of(const std::string& group) {
  if (group == "family") return "families";
  return group + (group == "batch" ? "es" : "s");
}

json milliseconds(const std::array<double, 2>& seconds) {
  return {{"forward", 1e3 * seconds[0]}, {"backward", 1e3 * seconds[1]}};
}

}  // namespace

std::vector<GroupErrors> errors_by(const EvaluatedSteps& evaluated, const std::string& group) {
  std::map<std::string, Steps> groups;
  for (std::size_t i = 0; i < evaluated.steps.size(); ++i) {
    const PredictedStep& step = evaluated.steps[i];
    groups[group_of(step, evaluated, group)].emplace_back(step, evaluated.bars[i]);
  }
  std::vector<GroupErrors> errors;
  for (const auto& [name, steps] : groups) errors.push_back(errors_of(name, steps));
  return errors;
}

std::vector<std::string> wrong_bars(const EvaluatedSteps& evaluated) {
  std::vector<std::string> wrong;
  for (const calibrate::CalibratedGpu& gpu : evaluated.gpus) {
    if (evaluated.protocol == calibrate::Protocol::kGpuOut &&
        !calibrate::states_transferred_bar(gpu.spec)) {
      continue;
    }
    int steps = 0, within = 0;
    for (std::size_t i = 0; i < evaluated.steps.size(); ++i) {
      const PredictedStep& step = evaluated.steps[i];
      if (&evaluated.gpus[step.gpu] != &gpu) continue;
      ++steps;
      within += step.miss() <= evaluated.bars[i] ? 1 : 0;
    }
    const double coverage = static_cast<double>(within) / std::max(steps, 1);
    const bool right =
        coverage >= calibrate::kLeastCoverage && coverage <= calibrate::kMostCoverage;
    if (steps > 0 && !right) wrong.push_back(gpu.spec.name);
  }
  return wrong;
}

std::string evaluation_text(const EvaluatedSteps& evaluated, const std::string& group,
                            const report::Terminal& terminal) {
  report::TextTable table({group, "steps", "mean %", "median", "90th", "worst", "bias", "forward",
                           "backward", fmt::format("{} bar", terminal.plus_minus()), "within"});
  const std::vector<GroupErrors> groups = errors_by(evaluated, group);
  double means = 0;
  for (const GroupErrors& errors : groups) {
    table.add_row({errors.name, std::to_string(errors.steps), report::percent(errors.mean, 1),
                   report::percent(errors.median, 1), report::percent(errors.p90, 1),
                   report::percent(errors.worst, 1), fmt::format("{:+.1f}", 100 * errors.bias),
                   report::percent(errors.forward, 1), report::percent(errors.backward, 1),
                   report::percent(errors.bar, 1), report::percent(errors.within, 1)});
    means += errors.mean;
  }
  const std::vector<std::string> wrong = wrong_bars(evaluated);
  return fmt::format(
      "{}mean of the {}: {} %\n\n"
      "bars that contain less than {:.0f} % or more than {:.0f} % of a GPU's steps: {}\n",
      table.str(terminal.output_columns), plural_of(group),
      report::percent(means / static_cast<double>(groups.size()), 1),
      100 * calibrate::kLeastCoverage, 100 * calibrate::kMostCoverage,
      wrong.empty() ? "none" : fmt::format("{}", fmt::join(wrong, ", ")));
}

json evaluation_json(const EvaluatedSteps& evaluated) {
  json rows = json::array();
  for (std::size_t i = 0; i < evaluated.steps.size(); ++i) {
    const PredictedStep& step = evaluated.steps[i];
    rows.push_back({{"gpu", evaluated.gpus[step.gpu].spec.name},
                    {"model", evaluated.recorded.models[step.model]},
                    {"batch", step.batch},
                    {"measured_ms", milliseconds(step.measured_seconds)},
                    {"predicted_ms", milliseconds(step.predicted_seconds)},
                    {"error", step.error()},
                    {"bar", evaluated.bars[i]}});
  }
  return rows;
}

void set_bars(const std::vector<calibrate::CalibratedGpu>& gpus,
              const std::vector<PredictedStep>& steps, calibrate::Protocol protocol,
              std::vector<profile::CalibrationBars>& bars) {
  double profile::CalibrationBars::* bar = nullptr;
  switch (protocol) {
    case calibrate::Protocol::kInSample:
      return;
    case calibrate::Protocol::kFamilyOut:
      bar = &profile::CalibrationBars::unseen_model;
      break;
    case calibrate::Protocol::kGpuOut:
      bar = &profile::CalibrationBars::other_gpu;
      break;
    case calibrate::Protocol::kOneBatch:
      bar = &profile::CalibrationBars::known_batch;
      break;
  }
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    bars[gpu].*bar = calibrate::stated_bar(gpus, steps, protocol, static_cast<int>(gpu));
  }
}

}  // namespace gpemu::tools
