// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/published.hpp"

#include <algorithm>
#include <array>
#include <ceres/jet.h>
#include <cmath>
#include <map>
#include <numeric>

#include "gpemu/calibrate/fit.hpp"
#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/cost/operation_time.hpp"
#include "gpemu/cost/phase_time.hpp"

namespace gpemu::calibrate {
namespace {

using cost::PublishedStep;

/// The host's time to launch a step, in seconds. The order of the operations is not known, so that
/// biases that are added after convolutions count as operations of their own.
double host_seconds(const PublishedStep& step, const profile::OperationParameters& parameters) {
  double launches = 0;
  for (const auto& [operation, forward, backward] : step.operations) {
    launches += forward * parameters.at(cost::host_cost(operation, nullptr, true)) +
                backward * parameters.at(cost::host_cost(operation, nullptr, false));
  }
  return launches * parameters[cost::kHostScale];
}

std::string part_of(const cost::DescribedOperation& operation, const profile::GpuSpec& gpu) {
  using Kind = cost::OperationWork::Kind;
  const Kind kind = cost::operation_work(operation, gpu).kind;
  if (kind == Kind::kDepthwiseConvolution) return "depthwise";
  if (kind == Kind::kGroupedConvolution) return "grouped";
  return std::string(cost::kOperationClassNames.at(static_cast<int>(operation.operation_class)));
}

/// Published steps on one GPU.
class PublishedTimes final : public Measurements {
 public:
  explicit PublishedTimes(const profile::GpuSpec& gpu) : rates_(cost::gpu_rates(gpu)) {}

  void add(const PublishedStep& step, const profile::GpuSpec& gpu, double measured_seconds,
           double host_seconds) {
    Row& row = rows_.emplace_back();
    row.measured = measured_seconds;
    row.host = host_seconds;
    for (const auto& [operation, forward, backward] : step.operations) {
      const auto work = cost::operation_work(operation.at(1), gpu);
      row.works.push_back({.work = work,
                           .count = static_cast<double>(forward + backward),
                           .least = cost::least_seconds(work, rates_)});
    }
  }

  [[nodiscard]] int count() const override { return static_cast<int>(rows_.size()); }

  void compare(std::span<const double> logarithms, std::span<double> residuals,
               std::span<double> derivatives) const override {
    std::array<double, cost::kOperationParameterCount> values{};
    std::ranges::transform(logarithms, values.begin(),
                           [](double logarithm) { return std::exp(logarithm); });
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      std::span<double> slopes;
      if (!derivatives.empty())
        slopes =
            derivatives.subspan(i * cost::kOperationParameterCount, cost::kOperationParameterCount);
      std::ranges::fill(slopes, 0.0);
      const double device = device_seconds(row, values, slopes);
      const double predicted = std::max(device, row.host);
      residuals[i] = std::log(predicted / row.measured);
      for (double& slope : slopes) slope = device < row.host ? 0 : slope / predicted;
    }
  }

 private:
  struct CountedWork {
    cost::OperationWork work;
    double count = 0;
    double least = 0;  ///< in seconds.
  };
  struct Row {
    double measured = 0, host = 0;
    std::vector<CountedWork> works;
  };

  /// Returns the sum of the operations, and adds its derivatives to `slopes` unless that is empty.
  [[nodiscard]] double device_seconds(
      const Row& row, const std::array<double, cost::kOperationParameterCount>& values,
      std::span<double> slopes) const {
    using Jet = ceres::Jet<double, cost::kMostParameters>;
    std::array<Jet, cost::kOperationParameterCount> parameters;
    if (!slopes.empty()) {
      std::ranges::transform(values, parameters.begin(), [](double value) { return Jet(value); });
    }
    double sum = 0;
    for (const auto& [work, count, least] : row.works) {
      if (slopes.empty()) {
        sum += count * std::max(cost::operation_seconds(work, rates_, values.data()), least);
        continue;
      }
      const cost::ParameterList list = cost::parameters_of(work);
      for (int j = 0; j < list.count; ++j) {
        parameters[list.indices[j]].v[j] = values[list.indices[j]];
      }
      const Jet time = cost::operation_seconds(work, rates_, parameters.data());
      sum += count * std::max(time.a, least);
      for (int j = 0; j < list.count; ++j) {
        if (time.a > least) slopes[list.indices[j]] += count * time.v[j];
        parameters[list.indices[j]].v[j] = 0;
      }
    }
    return sum;
  }

  cost::GpuRates rates_;
  std::vector<Row> rows_;
};

}  // namespace

std::string_view published_family(std::string_view model) {
  constexpr std::array<std::string_view, 10> kPorts = {
      "gluon_", "tf_", "tv_", "swsl_", "ssl_", "ig_", "legacy_", "adv_", "ens_", "eca_"};
  for (const std::string_view port : kPorts) {
    if (model.starts_with(port)) model.remove_prefix(port.size());
  }
  const auto end = std::ranges::find_if(model, [](char c) { return c < 'a' || c > 'z'; });
  return model.substr(0, static_cast<std::size_t>(end - model.begin()));
}

bool is_held_out(std::string_view family) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a.
  for (const char c : family) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return (hash >> 32) % 4 == 0;
}

double PublishedAnswer::miss() const {
  const double ratio = predicted_seconds / measured_seconds;
  return std::max(ratio, 1 / ratio) - 1;
}

PublishedAnswer predict_published(const PublishedStep& step, const profile::GpuSpec& gpu) {
  const cost::OperationCostModel model(gpu);
  double busy = 0, slack = 0;
  PublishedAnswer answer;
  for (const auto& [recorded, forward, backward] : step.operations) {
    const cost::DescribedOperation operation = recorded.at(1);
    const cost::Estimate estimate = model.price(operation).estimate;
    const double seconds = (forward + backward) * to_seconds(estimate.time);
    busy += seconds;
    slack += seconds * estimate.relative_error;
    answer.parts[part_of(operation, gpu)] += seconds;
  }
  profile::OperationParameters parameters{};
  std::ranges::transform(profile::kOperationParameters, parameters.begin(),
                         &profile::Parameter::typical);
  if (gpu.calibration) parameters = gpu.calibration->parameters;
  const double host = host_seconds(step, parameters);
  // The bar of what the GPU waits for its host, as in predict_step().
  constexpr double kHostError = 1;
  const double seconds = std::max(busy, host);
  for (auto& [name, part] : answer.parts) part /= seconds;
  answer.predicted_seconds = seconds;
  answer.bar = (slack + kHostError * (seconds - busy)) / seconds;
  return answer;
}

Result<profile::Calibration> calibrate_published(
    std::span<const PublishedStep> steps, const profile::GpuSpec& gpu,
    const profile::Calibration& start, const std::function<bool(const PublishedStep&)>& chosen) {
  PublishedTimes times(gpu);
  std::map<std::string, int> models;
  for (const PublishedStep& step : steps) {
    const auto time =
        std::ranges::find(step.seconds, gpu.name, &decltype(step.seconds)::value_type::first);
    if (step.precision == "fp32" || time == step.seconds.end()) continue;
    if (!chosen(step)) continue;
    times.add(step, gpu, time->second, host_seconds(step, start.parameters));
    ++models[step.model];
  }
  if (times.count() == 0) {
    return fail(ErrorCode::kNotFound, "no published step in 16 bits ran on {}", gpu.name);
  }
  // How far the GPU may be from the measured one: as one GPU from all, and as these from typical.
  std::vector<profile::Parameter> parameters(cost::kOperationParameters.begin(),
                                             cost::kOperationParameters.end());
  for (profile::Parameter& parameter : parameters) {
    parameter.shared_spread = std::hypot(parameter.shared_spread, parameter.own_spread);
  }
  std::vector<int> device(profile::kFirstHostParameter);
  std::iota(device.begin(), device.end(), 0);
  std::vector<double> logarithms;
  for (const double value : start.parameters) logarithms.push_back(std::log(value));
  GPEMU_ASSIGN(const std::vector<double> fitted, refit(parameters, times, logarithms, device));
  profile::Calibration calibration = start;
  calibration.gpu = gpu.name;
  calibration.models = static_cast<int>(models.size());
  calibration.steps = times.count();
  calibration.tensor_cores = calibration.half = true;
  calibration.tensor_rate = profile::tensor_rate(gpu);
  std::ranges::transform(fitted, calibration.parameters.begin(),
                         [](double logarithm) { return std::exp(logarithm); });
  std::vector<double> residuals(static_cast<std::size_t>(times.count()));
  times.compare(fitted, residuals, {});
  calibration.error = 0;
  for (const double residual : residuals) {
    calibration.error += std::abs(std::exp(residual) - 1) / static_cast<double>(residuals.size());
  }
  return calibration;
}

}  // namespace gpemu::calibrate
