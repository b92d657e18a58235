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

/// Returns whether a kernel belongs to PyTorch's own batch normalization, which it uses where cuDNN
/// does not serve: 16 bits with the channels last, for example. cuDNN's is a single operation.
bool is_of_batch_norm(const RecordedOperation& operation) {
  return operation.name.find("batch_norm_") != std::string::npos ||
         operation.name.find("Normalization_cu") != std::string::npos;
}

/// Returns whether an operation is launched together with a neighbour by PyTorch's own batch
/// normalization: its kernels but the first one, and before them a kernel that clears counters or,
/// if nothing is trained, converts the statistics.
bool follows_in_batch_norm(const RecordedOperation& operation, const Neighbours& neighbours) {
  const auto is_next_to = [](const RecordedOperation* other) {
    return other != nullptr && is_of_batch_norm(*other);
  };
  if (is_of_batch_norm(operation)) return is_next_to(neighbours.previous);
  if (!is_next_to(neighbours.next) || operation.kind != GPEMU_OPERATION_ELEMENTWISE) return false;
  const bool clears = operation.shape[0] == AffineEntry{};
  const bool converts =
      operation.access == GPEMU_ACCESS_CONVERTED && operation.shape[1] == neighbours.next->shape[1];
  return clears || converts;
}

}  // namespace

OperationParameter host_cost(const RecordedOperation& operation, const Neighbours& neighbours,
                             bool forward) {
  if (follows_in_batch_norm(operation, neighbours)) return kHostPart;
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
  // The bias that PyTorch adds after a convolution.
  const RecordedOperation* const previous = neighbours.previous;
  const bool bias = forward && previous != nullptr && is_convolution(*previous) &&
                    operation.access == GPEMU_ACCESS_STRIDED;
  if (bias) return kHostPart;
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
    for (std::size_t i = 0; i < found->operations.size(); ++i) {
      const auto at = [&](std::size_t place) {
        return place < found->operations.size() ? &recording.operations[found->operations[place]]
                                                : nullptr;
      };
      const int cost =
          host_cost(*at(i), {.previous = at(i - 1), .next = at(i + 1)}, name == kNames[0]);
      phase.push_back({.operation = found->operations[i], .host_cost = cost});
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
