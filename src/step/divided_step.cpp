// SPDX-License-Identifier: Apache-2.0
#include "divided_step.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "parameter_lists.hpp"

namespace gpemu::step {
namespace {

/// Bytes of an element of a gradient and of an activation: FP32.
constexpr Bytes kElementBytes = 4;

bool depends_on_batch(const RecordedOperation& operation) {
  return std::ranges::any_of(operation.shape, [](const AffineEntry& one) { return one.slope > 0; });
}

bool is_convolution_backward(const RecordedOperation& operation) {
  return operation.kind == GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA ||
         operation.kind == GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER;
}

bool is_product(const RecordedOperation& operation) {
  return operation.kind == GPEMU_OPERATION_MATMUL;
}

/// A phase of the step: its operations, and when the GPU has done each, in seconds.
struct TimedPhase {
  std::vector<const RecordedOperation*> operations;
  PhaseTimes times;
  std::vector<double> ends;

  TimedPhase(const PricedRecording& recorded, int phase, int batch)
      : operations(recorded.operations(phase)), times(recorded.phase(phase, batch)) {
    double host = 0, device = 0;
    for (std::size_t i = 0; i < times.operations.size(); ++i) {
      host += times.launches[i];
      device = std::max(device, host) + times.operations[i];
      ends.push_back(device);
    }
  }

  /// Returns the factor from these times to those of a phase that takes as long as `whole`.
  [[nodiscard]] double scale_to(Duration whole) const {
    const double seconds = (ends.empty() ? 0 : ends.back()) + times.wait;
    return seconds > 0 ? to_seconds(whole) / seconds : 1;
  }

  /// Returns the time of the operations from one to another that depend on the batch.
  [[nodiscard]] Duration time_of(std::size_t first, std::size_t end) const {
    double seconds = 0;
    for (std::size_t i = first; i < end; ++i) {
      if (depends_on_batch(*operations[i])) seconds += times.operations[i];
    }
    return from_seconds(seconds);
  }
};

/// Returns the bytes of a sample's part of what the last operation of a forward pass writes.
Bytes output_bytes(const RecordedOperation& last) {
  const std::int64_t elements =
      is_product(last) ? last.shape[1].at(1) : std::max<std::int64_t>(last.shape[1].slope, 0);
  return static_cast<Bytes>(elements) * kElementBytes;
}

/// The operations of the fully connected layers at the end of a network: its products after the
/// last convolution, and what belongs to them.
struct HeadPlace {
  std::size_t forward_begin = 0;  ///< of the forward phase's operations, to their end.
  std::size_t backward_end = 0;   ///< of the backward phase's operations, from their begin.
  std::size_t convolution = 0;    ///< the first backward operation of a convolution.
};

HeadPlace find_head(const TimedPhase& forward, const TimedPhase& backward) {
  const auto& operations = forward.operations;
  const auto last_convolution = std::find_if(operations.rbegin(), operations.rend(), [](auto* one) {
    return one->kind == GPEMU_OPERATION_CONVOLUTION_FORWARD;
  });
  const auto product = std::find_if(last_convolution.base(), operations.end(),
                                    [](auto* one) { return is_product(*one); });
  const auto& back = backward.operations;
  const auto convolution =
      std::ranges::find_if(back, [](auto* one) { return is_convolution_backward(*one); });
  const auto last = std::find_if(std::make_reverse_iterator(convolution), back.rend(),
                                 [](auto* one) { return is_product(*one); });
  return {.forward_begin = static_cast<std::size_t>(product - operations.begin()),
          .backward_end = static_cast<std::size_t>(last.base() - back.begin()),
          .convolution = static_cast<std::size_t>(convolution - back.begin())};
}

}  // namespace

HeadTime head_time(const PricedRecording& recorded, int batch) {
  const TimedPhase forward(recorded, PricedRecording::kForwardPhase, batch);
  const TimedPhase backward(recorded, PricedRecording::kBackwardPhase, batch);
  const HeadPlace head = find_head(forward, backward);
  return {.forward = forward.time_of(head.forward_begin, forward.operations.size()),
          .backward = backward.time_of(0, head.backward_end)};
}

Result<StepParts> divided_step(const PricedRecording& recorded, int batch, Duration backward_time,
                               std::uint64_t parameters) {
  const TimedPhase forward(recorded, PricedRecording::kForwardPhase, batch);
  const TimedPhase backward(recorded, PricedRecording::kBackwardPhase, batch);
  const double scale = backward.scale_to(backward_time);
  const HeadPlace head = find_head(forward, backward);
  StepParts parts;
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < backward.operations.size() && found < parameters; ++i) {
    const std::uint64_t elements = gradient_elements(*backward.operations[i]);
    if (elements == 0) continue;
    found += elements;
    if (i < head.convolution) ++parts.head_gradients;
    parts.gradients.push_back({.bytes = static_cast<Bytes>(elements) * kElementBytes,
                               .ready = from_seconds(backward.ends[i] * scale)});
  }
  if (found != parameters) {
    return fail(ErrorCode::kUnsupported,
                "the recorded backward pass does not show the gradients of {} parameters",
                parameters);
  }
  if (!parts.gradients.empty()) {
    parts.optimizer = backward_time - parts.gradients.back().ready;
  }
  if (head.forward_begin < forward.operations.size()) {
    parts.head_input_bytes =
        static_cast<Bytes>(forward.operations[head.forward_begin]->shape[3].at(1)) * kElementBytes;
  }
  if (!forward.operations.empty()) parts.output_bytes = output_bytes(*forward.operations.back());
  return parts;
}

}  // namespace gpemu::step
