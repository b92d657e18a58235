// SPDX-License-Identifier: Apache-2.0
#include "priced_recording.hpp"

#include <algorithm>

#include "parameter_lists.hpp"

namespace gpemu::step {

Result<PricedRecording> PricedRecording::create(Recording recording, const profile::GpuSpec& gpu,
                                                std::uint64_t parameters) {
  GPEMU_ASSIGN(const std::vector<Phase> phases, step_phases(recording));
  PricedRecording priced(std::move(recording), phases, gpu);
  if (const auto per_tensor = priced.host_.listed_tensor()) {
    priced.use_lists(parameters, *per_tensor);
  }
  return priced;
}

PricedRecording::PricedRecording(Recording recording, const std::vector<Phase>& phases,
                                 const profile::GpuSpec& gpu)
    : recording_(std::move(recording)), model_(gpu), host_(gpu) {
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    std::ranges::transform(phases.at(i), std::back_inserter(phases_.at(i)),
                           [&](const Launch& launch) {
                             return PricedLaunch{.operation = launch.operation,
                                                 .seconds = host_.launch(launch.host_cost)};
                           });
  }
}

void PricedRecording::use_lists(std::uint64_t parameters, double seconds_per_tensor) {
  std::optional<ListedPhase> listed = in_lists(operations(kBackwardPhase), parameters);
  if (!listed) return;
  std::vector<PricedLaunch>& phase = phases_[kBackwardPhase];
  phase.resize(listed->dropped.size());
  for (std::size_t i = 0; i < phase.size(); ++i) phase[i].dropped = listed->dropped[i];
  const double seconds = seconds_per_tensor * static_cast<double>(listed->tensors) /
                         static_cast<double>(listed->passes.size());
  for (RecordedOperation& pass : listed->passes) {
    phase.push_back(
        {.operation = static_cast<int>(recording_.operations.size()), .seconds = seconds});
    recording_.operations.push_back(std::move(pass));
  }
}

std::vector<const RecordedOperation*> PricedRecording::operations(int index) const {
  std::vector<const RecordedOperation*> operations;
  for (const PricedLaunch& launch : phases_.at(index)) {
    operations.push_back(&recording_.operations[launch.operation]);
  }
  return operations;
}

PhaseTimes PricedRecording::phase(int index, int batch) const {
  const std::vector<PricedLaunch>& phase = phases_.at(index);
  PhaseTimes times{.wait = host_.wait(index == kForwardPhase)};
  times.launches.reserve(phase.size());
  times.operations.reserve(phase.size());
  for (const auto& [index_of_operation, seconds, dropped] : phase) {
    const RecordedOperation& operation = recording_.operations[index_of_operation];
    times.launches.push_back(dropped ? 0 : seconds);
    times.operations.push_back(
        dropped ? 0 : to_seconds(model_.price(operation.at(batch)).estimate.time));
  }
  return times;
}

}  // namespace gpemu::step
