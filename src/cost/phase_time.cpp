// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/phase_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

namespace gpemu::cost {
namespace {

bool is_convolution(const RecordedOperation& operation) {
  return operation.kind >= GPEMU_OPERATION_CONVOLUTION_FORWARD &&
         operation.kind <= GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER;
}

}  // namespace

OperationParameter host_cost(const RecordedOperation& operation, const RecordedOperation* previous,
                             bool forward) {
  switch (operation.kind) {
    case GPEMU_OPERATION_CONVOLUTION_FORWARD:
      return kHostConvolution;
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA:
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER:
      return kHostConvolutionBackward;
    case GPEMU_OPERATION_NORMALIZATION_FORWARD:
      return kHostNormalization;
    case GPEMU_OPERATION_NORMALIZATION_BACKWARD:
      return kHostNormalizationBackward;
    case GPEMU_OPERATION_MATMUL:
      return kHostOperation;
    case GPEMU_OPERATION_SET:  // Libraries clear their scratch memory this way.
      return kHostPart;
    default:
      break;
  }
  // The bias that PyTorch adds after a convolution, and a counter of batch normalization.
  const bool bias = forward && previous != nullptr && is_convolution(*previous) &&
                    operation.access == GPEMU_ACCESS_STRIDED;
  const bool counter = operation.type == GPEMU_TYPE_INT64 &&
                       operation.kind == GPEMU_OPERATION_ELEMENTWISE &&
                       operation.shape[1] == AffineEntry{1, 0};
  if (bias || counter) return kHostPart;
  return forward ? kHostOperation : kHostSmall;
}

Result<std::vector<Phase>> step_phases(const Recording& recording) {
  constexpr std::array<std::string_view, 2> kNames = {"forward", "backward"};
  std::vector<Phase> step;
  for (const std::string_view name : kNames) {
    const auto found = std::ranges::find(recording.phases, name, &RecordedPhase::name);
    if (found == recording.phases.end()) {
      return fail(ErrorCode::kInvalidArgument, "the recording of {} has no phase {}",
                  recording.model, name);
    }
    Phase& phase = step.emplace_back();
    const RecordedOperation* previous = nullptr;
    for (const int index : found->operations) {
      const RecordedOperation& operation = recording.operations[index];
      phase.push_back(
          {.operation = index, .host_cost = host_cost(operation, previous, name == kNames[0])});
      previous = &operation;
    }
  }
  return step;
}

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

double PhaseTimes::seconds(const PhaseScale& scale) const {
  std::vector<double> host = launches, device = operations;
  for (double& time : host) time *= scale.host;
  for (double& time : device) time *= scale.device;
  return phase_seconds(host, device) + scale.host * wait;
}

PhaseScale scale_to(const PhaseTimes& phase, double measured) {
  std::size_t critical = 0;
  const double running = phase_seconds(phase.launches, phase.operations, &critical);
  const auto gap = phase.launches.begin() +
                   static_cast<std::ptrdiff_t>(std::min(critical + 1, phase.launches.size()));
  const double host =
      (std::accumulate(phase.launches.begin(), gap, 0.0) + phase.wait) / (running + phase.wait);
  const auto at = [&](double change) {
    return PhaseScale{.host = std::exp(change * host), .device = std::exp(change * (1 - host))};
  };
  // A phase takes longer if its parts do. One part has a share of at least a half.
  const double furthest = 2 * std::abs(std::log(measured / phase.seconds())) + 1;
  constexpr int kHalvings = 40;
  double low = -furthest, high = furthest;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (phase.seconds(at(middle)) < measured ? low : high) = middle;
  }
  return at((low + high) / 2);
}

double corrected_seconds(const PhaseTimes& phase, const PhaseScale& scale, double doublings) {
  const double share = (1 + std::exp2(-doublings)) / 2;
  return std::pow(phase.seconds(), 1 - share) * std::pow(phase.seconds(scale), share);
}

}  // namespace gpemu::cost
