// SPDX-License-Identifier: Apache-2.0
#include "priced_recording.hpp"

#include <algorithm>

namespace gpemu::cost {

Result<PricedRecording> PricedRecording::create(Recording recording, const profile::GpuSpec& gpu) {
  GPEMU_ASSIGN(std::vector<Phase> phases, step_phases(recording));
  return PricedRecording(std::move(recording), std::move(phases), gpu);
}

PricedRecording::PricedRecording(Recording recording, std::vector<Phase> phases,
                                 const profile::GpuSpec& gpu)
    : recording_(std::move(recording)), phases_(std::move(phases)), model_(gpu) {
  if (gpu.calibration) {
    host_ = gpu.calibration->parameters;
  } else {
    std::ranges::transform(profile::kOperationParameters, host_.begin(),
                           &profile::Parameter::typical);
  }
}

std::vector<const RecordedOperation*> PricedRecording::operations(int index) const {
  std::vector<const RecordedOperation*> operations;
  for (const Launch& launch : phases_[index]) {
    operations.push_back(&recording_.operations[launch.operation]);
  }
  return operations;
}

PhaseTimes PricedRecording::phase(int index, int batch) const {
  const Phase& phase = phases_[index];
  PhaseTimes times{.wait = host_[index == kForwardPhase ? kHostForward : kHostBackward]};
  times.launches.reserve(phase.size());
  times.operations.reserve(phase.size());
  for (const Launch& launch : phase) {
    const RecordedOperation& operation = recording_.operations[launch.operation];
    times.launches.push_back(host_[kHostScale] * host_.at(launch.host_cost));
    times.operations.push_back(to_seconds(model_.price(operation.at(batch)).estimate.time));
  }
  return times;
}

}  // namespace gpemu::cost
