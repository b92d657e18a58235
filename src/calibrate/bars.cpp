// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/bars.hpp"

#include <map>
#include <string_view>
#include <utility>

#include "gpemu/calibrate/coverage.hpp"

namespace gpemu::calibrate {

bool states_transferred_bar(const profile::GpuSpec& spec) {
  return spec.generation.informs_other_gpus;
}

std::vector<double> crossed_bars(const JoinedRecordings& recorded,
                                 const std::vector<CalibratedGpu>& gpus,
                                 const std::vector<PredictedStep>& steps, Protocol protocol) {
  const auto family = [&](const PredictedStep& step) {
    return family_of(recorded.models[step.model]);
  };
  const auto informs = [&](const PredictedStep& one, const PredictedStep& other) {
    return protocol == Protocol::kGpuOut
               ? one.gpu != other.gpu && states_transferred_bar(gpus[one.gpu].spec)
               : one.gpu == other.gpu && family(one) != family(other);
  };
  std::map<std::pair<int, std::string_view>, double> known;
  std::vector<double> bars;
  bars.reserve(steps.size());
  for (const PredictedStep& step : steps) {
    const auto [entry, is_new] = known.try_emplace({step.gpu, family(step)});
    if (is_new) {
      std::vector<double> misses;
      for (const PredictedStep& other : steps) {
        if (informs(other, step)) misses.push_back(other.miss());
      }
      entry->second = bar_of(std::move(misses));
    }
    bars.push_back(entry->second);
  }
  return bars;
}

double stated_bar(const std::vector<CalibratedGpu>& gpus, const std::vector<PredictedStep>& steps,
                  Protocol protocol, int gpu) {
  std::vector<double> misses;
  for (const PredictedStep& step : steps) {
    const bool counts = protocol == Protocol::kGpuOut ? states_transferred_bar(gpus[step.gpu].spec)
                                                      : step.gpu == gpu;
    if (counts) misses.push_back(step.miss());
  }
  return bar_of(std::move(misses));
}

}  // namespace gpemu::calibrate
