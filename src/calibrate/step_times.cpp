// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/step_times.hpp"

#include <algorithm>
#include <cmath>

namespace gpemu::calibrate {

struct StepTimes::Prices {
  std::vector<double> parameters;  ///< not their logarithms.
  std::vector<double> seconds;     ///< (operations, batches)
  std::vector<Slopes> slopes;      ///< the same, or empty.
};

struct StepTimes::Prediction {
  double seconds = 0;
  std::vector<double> derivatives;  ///< by the parameters' logarithms, or empty.
};

StepTimes::StepTimes(std::span<const std::vector<Phase>> steps, const OperationTimes& times,
                     std::vector<StepTime> measured, HostParameters host)
    : steps_(steps), times_(times), measured_(std::move(measured)), host_(std::move(host)) {}

int StepTimes::count() const {
  std::size_t count = 0;
  for (const StepTime& time : measured_) {
    count += time.phase_seconds.size() + (time.phase_seconds.size() > 1 ? 1 : 0);
  }
  return static_cast<int>(count);
}

StepTimes::Prices StepTimes::price(std::span<const double> logarithms,
                                   bool with_derivatives) const {
  const std::size_t configurations =
      static_cast<std::size_t>(times_.operations()) * static_cast<std::size_t>(times_.batches());
  Prices prices;
  prices.parameters.reserve(logarithms.size());
  for (const double logarithm : logarithms) prices.parameters.push_back(std::exp(logarithm));
  prices.seconds.resize(configurations);
  if (with_derivatives) prices.slopes.resize(configurations);
  times_.price(logarithms, prices.seconds, prices.slopes);
  return prices;
}

std::size_t StepTimes::configuration(const Launch& launch, int batch) const {
  return static_cast<std::size_t>(launch.operation) * times_.batches() + batch;
}

step::PhaseTimes StepTimes::phase_times(const StepTime& time, std::size_t index,
                                        const Prices& prices) const {
  const Phase& phase = steps_[time.step][index];
  const double scale = prices.parameters[host_.scale];
  step::PhaseTimes times{.wait = prices.parameters[host_.synchronise[index]]};
  times.launches.reserve(phase.size());
  times.operations.reserve(phase.size());
  for (const Launch& launch : phase) {
    times.launches.push_back(scale * prices.parameters[launch.host_cost]);
    times.operations.push_back(prices.seconds[configuration(launch, time.batch)]);
  }
  return times;
}

StepTimes::Prediction StepTimes::predict_phase(const StepTime& time, std::size_t index,
                                               const Prices& prices) const {
  const Phase& phase = steps_[time.step][index];
  const step::PhaseTimes times = phase_times(time, index, prices);
  std::size_t critical = 0;
  Prediction prediction{
      .seconds = step::phase_seconds(times.launches, times.operations, &critical) + times.wait};
  if (prices.slopes.empty()) return prediction;

  std::vector<double>& sum = prediction.derivatives;
  sum.assign(prices.parameters.size(), 0.0);
  for (std::size_t i = 0; i < phase.size(); ++i) {
    if (i <= critical) {
      sum[phase[i].host_cost] += times.launches[i];
      sum[host_.scale] += times.launches[i];
    }
    if (i < critical) continue;
    const Slopes& slopes = prices.slopes[configuration(phase[i], time.batch)];
    for (std::size_t j = 0; j < slopes.values.size(); ++j) {
      sum[slopes.parameters[j]] += slopes.values[j];
    }
  }
  sum[host_.synchronise[index]] += times.wait;
  return prediction;
}

void StepTimes::compare(std::span<const double> logarithms, std::span<double> residuals,
                        std::span<double> derivatives) const {
  const std::size_t count = logarithms.size();
  const Prices prices = price(logarithms, !derivatives.empty());
  std::size_t row = 0;
  const auto add = [&](const Prediction& prediction, double measured) {
    residuals[row] = std::log(prediction.seconds / measured);
    for (std::size_t j = 0; j < prediction.derivatives.size(); ++j) {
      derivatives[row * count + j] = prediction.derivatives[j] / prediction.seconds;
    }
    ++row;
  };
  for (const StepTime& time : measured_) {
    Prediction whole;
    double measured = 0;
    for (std::size_t i = 0; i < time.phase_seconds.size(); ++i) {
      const Prediction phase = predict_phase(time, i, prices);
      add(phase, time.phase_seconds[i]);
      whole.seconds += phase.seconds;
      whole.derivatives.resize(phase.derivatives.size());
      for (std::size_t j = 0; j < phase.derivatives.size(); ++j) {
        whole.derivatives[j] += phase.derivatives[j];
      }
      measured += time.phase_seconds[i];
    }
    if (time.phase_seconds.size() > 1) add(whole, measured);
  }
}

std::vector<std::vector<double>> StepTimes::predict(std::span<const double> logarithms) const {
  const Prices prices = price(logarithms, false);
  std::vector<std::vector<double>> predictions;
  predictions.reserve(measured_.size());
  for (const StepTime& time : measured_) {
    std::vector<double>& phases = predictions.emplace_back();
    for (std::size_t i = 0; i < time.phase_seconds.size(); ++i) {
      phases.push_back(predict_phase(time, i, prices).seconds);
    }
  }
  return predictions;
}

std::vector<std::vector<double>> StepTimes::predict_from(std::span<const double> logarithms,
                                                         std::span<const StepTime> known,
                                                         std::span<const int> batches) const {
  const Prices prices = price(logarithms, false);
  std::vector<std::vector<double>> predictions;
  predictions.reserve(measured_.size());
  for (const StepTime& time : measured_) {
    const auto found = std::ranges::find(known, time.step, &StepTime::step);
    std::vector<double>& phases = predictions.emplace_back();
    for (std::size_t i = 0; i < time.phase_seconds.size(); ++i) {
      const step::PhaseTimes phase = phase_times(time, i, prices);
      if (found == known.end()) {
        phases.push_back(phase.seconds());
        continue;
      }
      const step::PhaseScale scale =
          step::scale_to(phase_times(*found, i, prices), found->phase_seconds[i]);
      const double ratio = static_cast<double>(batches[time.batch]) / batches[found->batch];
      phases.push_back(step::corrected_seconds(phase, scale, std::abs(std::log2(ratio))));
    }
  }
  return predictions;
}

}  // namespace gpemu::calibrate
