// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "gpemu/calibrate/evaluate.hpp"

namespace gpemu::calibrate {

/// Returns a GPU of 80 multiprocessors and 14 TFLOPS on which every recorded step took what the
/// model says with typical parameters, but for one.
inline CalibratedGpu gpu_with(profile::GpuSpec spec, const JoinedRecordings& recorded,
                              cost::OperationParameter parameter, double value) {
  CalibratedGpu gpu{.spec = std::move(spec), .measured = {}};
  gpu.spec.fp32_flops = 14e12;
  gpu.spec.multiprocessors = 80;
  gpu.spec.boost_clock_mhz = 1400;
  for (std::size_t model = 0; model < recorded.models.size(); ++model) {
    for (std::size_t batch = 0; batch < recorded.batches.size(); ++batch) {
      gpu.measured.push_back({static_cast<int>(model), static_cast<int>(batch), {1, 1}});
    }
  }
  std::vector<double> truth;
  truth.reserve(cost::kOperationParameterCount);
  for (const Parameter& each : cost::kOperationParameters) {
    truth.push_back(std::log(each.typical));
  }
  truth[parameter] = std::log(value);
  const RecordedTimes times(recorded, gpu.spec);
  const auto seconds =
      StepTimes(recorded.steps, times, gpu.measured, host_parameters()).predict(truth);
  for (std::size_t i = 0; i < seconds.size(); ++i) gpu.measured[i].phase_seconds = seconds[i];
  return gpu;
}

}  // namespace gpemu::calibrate
