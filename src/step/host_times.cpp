// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/host_times.hpp"

#include <algorithm>

namespace gpemu::step {
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

cost::OperationParameter host_cost(const RecordedOperation& operation, const Neighbours& neighbours,
                                   bool forward) {
  if (follows_in_batch_norm(operation, neighbours)) return cost::kHostPart;
  switch (operation.kind) {
    case GPEMU_OPERATION_CONVOLUTION_FORWARD:
      return cost::kHostConvolution;
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA:
    case GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER:
      return cost::kHostConvolutionBackward;
    case GPEMU_OPERATION_NORMALIZATION_FORWARD:
      return cost::kHostNormalization;
    case GPEMU_OPERATION_NORMALIZATION_BACKWARD:
      return cost::kHostNormalizationBackward;
    case GPEMU_OPERATION_MATMUL:
      return cost::kHostOperation;
    case GPEMU_OPERATION_SET:  // Libraries clear their scratch memory this way.
      return cost::kHostPart;
    default:
      break;
  }
  // The bias that PyTorch adds after a convolution.
  const RecordedOperation* const previous = neighbours.previous;
  const bool bias = forward && previous != nullptr && is_convolution(*previous) &&
                    operation.access == GPEMU_ACCESS_STRIDED;
  if (bias) return cost::kHostPart;
  return forward ? cost::kHostOperation : cost::kHostSmall;
}

HostTimes::HostTimes(const profile::GpuSpec& gpu) {
  std::ranges::transform(profile::kOperationParameters, parameters_.begin(),
                         &profile::Parameter::typical);
  if (!gpu.calibration) return;
  parameters_ = gpu.calibration->parameters;
  listed_tensor_ = gpu.calibration->listed_tensor;
}

std::optional<double> HostTimes::listed_launch(const ListedTensors& listed) const {
  if (!listed_tensor_ || listed.tensors() == 0) return std::nullopt;
  return *listed_tensor_ * static_cast<double>(listed.tensors()) /
         static_cast<double>(listed.launches());
}

}  // namespace gpemu::step
