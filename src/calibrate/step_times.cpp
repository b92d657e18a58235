// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/step_times.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gpemu::calibrate {

double phase_seconds(std::span<const double> launches, std::span<const double> operations,
                     std::size_t* critical) {
  double device = std::accumulate(operations.begin(), operations.end(), 0.0);
  double host = 0, longest = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    host += launches[i];
    if (host + device > longest) {
      longest = host + device;
      if (critical != nullptr) *critical = i;
    }
    device -= operations[i];
  }
  return longest;
}

struct StepTimes::Prices {
  std::vector<double> parameters;  ///< themselves, not their logarithms.
  std::vector<double> seconds;     ///< (operations, batches)
  std::vector<Slopes> slopes;      ///< the same, or empty.
};

struct StepTimes::Scale {
  double host = 1;    ///< of what launches take,
  double device = 1;  ///< of what operations take,
  double whole = 1;   ///< and of the phase.
};

struct StepTimes::Prediction {
  double seconds = 0;
  double host_share = 0;            ///< of the launches before the device has no gap.
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

StepTimes::Prediction StepTimes::predict_phase(const StepTime& time, std::size_t index,
                                               const Prices& prices, const Scale& scaled) const {
  const Phase& phase = steps_[time.step][index];
  const auto configuration = [&](const Launch& launch) {
    return static_cast<std::size_t>(launch.operation) * times_.batches() + time.batch;
  };
  const double scale = prices.parameters[host_.scale] * scaled.host;
  const int wait = host_.synchronise[index];
  std::vector<double> launches, operations;
  launches.reserve(phase.size());
  operations.reserve(phase.size());
  for (const Launch& launch : phase) {
    launches.push_back(scale * prices.parameters[launch.host_cost]);
    operations.push_back(prices.seconds[configuration(launch)] * scaled.device);
  }
  std::size_t critical = 0;
  const double running = phase_seconds(launches, operations, &critical);
  const auto gap = launches.begin() + static_cast<std::ptrdiff_t>(critical) + 1;
  Prediction prediction{
      .seconds = scaled.whole * (running + prices.parameters[wait]),
      .host_share = phase.empty() ? 0 : std::accumulate(launches.begin(), gap, 0.0) / running};
  if (prices.slopes.empty()) return prediction;

  std::vector<double>& sum = prediction.derivatives;
  sum.assign(prices.parameters.size(), 0.0);
  for (std::size_t i = 0; i < phase.size(); ++i) {
    if (i <= critical) {
      sum[phase[i].host_cost] += launches[i];
      sum[host_.scale] += launches[i];
    }
    if (i < critical) continue;
    const Slopes& slopes = prices.slopes[configuration(phase[i])];
    for (std::size_t j = 0; j < slopes.values.size(); ++j) {
      sum[slopes.parameters[j]] += slopes.values[j];
    }
  }
  sum[wait] += prices.parameters[wait];
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
      const Prediction phase = predict_phase(time, i, prices, {});
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
      phases.push_back(predict_phase(time, i, prices, {}).seconds);
    }
  }
  return predictions;
}

StepTimes::Scale StepTimes::scale_to(const StepTime& known, std::size_t index,
                                     const Prices& prices) const {
  const double measured = known.phase_seconds[index];
  Scale scale;
  double Scale::* const part =
      predict_phase(known, index, prices, scale).host_share > 0.5 ? &Scale::host : &Scale::device;
  // A phase takes the longer, the longer its parts take.
  constexpr double kFurthest = 16;
  constexpr int kHalvings = 40;
  double low = std::log(1 / kFurthest), high = std::log(kFurthest);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    scale.*part = std::exp(middle);
    (predict_phase(known, index, prices, scale).seconds < measured ? low : high) = middle;
  }
  // Where one part alone cannot meet it, the rest is the whole phase's.
  scale.whole = measured / predict_phase(known, index, prices, scale).seconds;
  return scale;
}

std::vector<std::vector<double>> StepTimes::predict_from(std::span<const double> logarithms,
                                                         int known) const {
  const Prices prices = price(logarithms, false);
  std::vector<std::vector<double>> predictions;
  predictions.reserve(measured_.size());
  for (const StepTime& time : measured_) {
    const auto found = std::ranges::find_if(measured_, [&](const StepTime& other) {
      return other.step == time.step && other.batch == known;
    });
    std::vector<double>& phases = predictions.emplace_back();
    for (std::size_t i = 0; i < time.phase_seconds.size(); ++i) {
      const Scale scale = found == measured_.end() ? Scale() : scale_to(*found, i, prices);
      phases.push_back(predict_phase(time, i, prices, scale).seconds);
    }
  }
  return predictions;
}

}  // namespace gpemu::calibrate
