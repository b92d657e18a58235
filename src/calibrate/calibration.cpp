// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>

#include "gpemu/calibrate/nearest_gpu.hpp"
#include "gpemu/calibrate/published.hpp"

namespace gpemu::calibrate {
namespace {

double mean_error(const StepTimes& steps, std::span<const double> logarithms) {
  const std::vector<std::vector<double>> predicted = steps.predict(logarithms);
  double sum = 0;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    const auto total = [](const std::vector<double>& phases) {
      return std::accumulate(phases.begin(), phases.end(), 0.0);
    };
    sum += std::abs(total(predicted[i]) / total(steps.measured()[i].phase_seconds) - 1);
  }
  return sum / static_cast<double>(std::max<std::size_t>(predicted.size(), 1));
}

bool uses_tensor_cores(const JoinedRecordings& recorded, const profile::GpuSpec& spec) {
  return std::ranges::any_of(recorded.operations, [&](const step::RecordedOperation& operation) {
    return cost::operation_work(operation.at(1), spec).peak_flops > spec.fp32_flops;
  });
}

bool has_tensor_cores(const profile::GpuSpec& spec) {
  return spec.tf32_tensor_flops || spec.fp16_tensor_flops || spec.bf16_tensor_flops;
}

}  // namespace

Result<std::vector<profile::Calibration>> calibrate_gpus(const JoinedRecordings& recorded,
                                                         const std::vector<CalibratedGpu>& gpus) {
  std::vector<RecordedTimes> times;
  std::vector<StepTimes> steps;
  std::vector<std::unique_ptr<Measurements>> operations;
  std::vector<JoinedMeasurements> joined;
  std::vector<const Measurements*> measurements;
  times.reserve(gpus.size());
  steps.reserve(gpus.size());
  joined.reserve(gpus.size());
  for (const CalibratedGpu& gpu : gpus) {
    times.emplace_back(recorded, gpu.spec);
    steps.emplace_back(recorded.steps, times.back(), gpu.measured, host_parameters());
    operations.push_back(operation_times(gpu.operations, gpu.spec));
    measurements.push_back(&joined.emplace_back(steps.back(), *operations.back()));
  }
  GPEMU_ASSIGN(const Fit fit, calibrate::fit(cost::kOperationParameters, measurements));
  std::vector<profile::Calibration> calibrations;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    std::set<int> models;
    for (const StepTime& step : gpus[i].measured) models.insert(step.step);
    profile::Calibration& calibration = calibrations.emplace_back();
    calibration.gpu = gpus[i].spec.name;
    calibration.models = static_cast<int>(models.size());
    calibration.steps = static_cast<int>(gpus[i].measured.size());
    calibration.error = mean_error(steps[i], fit.own[i]);
    calibration.tensor_cores = uses_tensor_cores(recorded, gpus[i].spec);
    std::ranges::transform(fit.own[i], calibration.parameters.begin(),
                           [](double logarithm) { return std::exp(logarithm); });
  }
  return calibrations;
}

std::string_view other_arithmetic(const CalibratedGpu& gpu, std::span<const CalibratedGpu> gpus,
                                  std::span<const profile::Calibration> calibrations) {
  if (!has_tensor_cores(gpu.spec)) return {};
  const auto own = std::ranges::find(calibrations, gpu.spec.name, &profile::Calibration::gpu);
  std::string_view nearest;
  int nearest_distance = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (calibrations[i].tensor_cores == own->tensor_cores) continue;
    const profile::GpuSpec& other = gpus[i].spec;
    if (other.name == nearest_gpu(gpu.spec.name)) return other.name;
    const int distance = std::abs(profile::capability_distance(other, gpu.spec));
    if (nearest.empty() || distance < nearest_distance) {
      nearest = other.name;
      nearest_distance = distance;
    }
  }
  return nearest;
}

}  // namespace gpemu::calibrate
