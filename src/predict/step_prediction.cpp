// SPDX-License-Identifier: Apache-2.0
#include "gpemu/predict/step_prediction.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "gpemu/cost/phase_time.hpp"

#include "step_queue.hpp"

namespace gpemu::predict {
namespace {

using cost::OperationClass;
using Kind = record::WorkEvent::Kind;

/// Repetitions until steps follow each other as in a long run.
constexpr int kRepetitions = 6;

/// The host's parameters for launches: those of the GPU's measured steps, or the expected ones if
/// there are none.
profile::OperationParameters host_parameters(const profile::GpuSpec& gpu) {
  if (gpu.calibration) return gpu.calibration->parameters;
  profile::OperationParameters parameters{};
  std::ranges::transform(profile::kOperationParameters, parameters.begin(),
                         &profile::Parameter::typical);
  return parameters;
}

/// The bar of the host's time: another host than the measured one may be twice as fast or slow. Set
/// by hand.
constexpr double kHostError = 1.0;

/// Returns for each event of a step whether it belongs to the forward pass: the requests of the
/// program's first thread from its first layer to the last one before the backward pass, for which
/// PyTorch uses another thread. Events around them clear gradients and update parameters. The step
/// is treated as a circle.
std::vector<bool> forward_events(const record::ProgramWork& work, const StepRange& step) {
  const auto is_operation = [](const record::WorkEvent& event) {
    return event.kind == Kind::kOperation;
  };
  const auto program = std::ranges::find_if(work.events, is_operation);
  const std::size_t count = step.end - step.begin;
  bool has_backward = false;
  std::vector<bool> forward(count, false);
  std::vector<std::size_t> layers;  // Since the backward pass.
  for (std::size_t i = 0; i < 2 * count; ++i) {
    const record::WorkEvent& event = work.events[step.begin + i % count];
    if (!is_operation(event)) continue;
    if (event.thread == program->thread) {
      if (is_layer(work.operations[event.index].operation_class)) layers.push_back(i);
      continue;
    }
    has_backward = true;
    if (layers.empty()) continue;
    for (std::size_t j = layers.front(); j <= layers.back(); ++j) forward[j % count] = true;
    layers.clear();
  }
  return has_backward ? forward : std::vector<bool>(count, true);  // There is no sign of it.
}

/// Prices the events of a step, and adds up their times.
class Pricing {
 public:
  Pricing(const record::ProgramWork& work, const profile::GpuSpec& recorded,
          const profile::GpuSpec& gpu)
      : work_(work),
        model_(gpu),
        link_(recorded.pinned_copy_bytes_per_s / gpu.pinned_copy_bytes_per_s),
        host_(host_parameters(gpu)) {}

  std::vector<QueuedEvent> price(const StepRange& step, StepPrediction& prediction) {
    const std::vector<bool> forward = forward_events(work_, step);
    const cost::RecordedOperation* previous = nullptr;
    std::vector<QueuedEvent> queued;
    for (std::size_t i = step.begin; i < step.end; ++i) {
      const record::WorkEvent& event = work_.events[i];
      QueuedEvent& entry = queued.emplace_back(
          QueuedEvent{.kind = event.kind, .stream = event.stream, .recorded = event.time});
      if (event.kind == Kind::kWait) entry.launch = from_seconds(host_[cost::kHostForward]);
      if (event.kind > Kind::kCopyFromDevice) continue;
      const cost::RecordedOperation& operation = work_.operations[event.index];
      const auto parameter = cost::host_cost(operation, previous, forward[i - step.begin]);
      entry.launch = from_seconds(host_[parameter] * host_[cost::kHostScale]);
      entry.time = is_copy(event.kind) ? from_seconds(to_seconds(event.duration) * link_)
                                       : kernel_time(operation, prediction);
      prediction.host += entry.launch;
      ClassTime& sum = classes_[operation.operation_class];
      sum.operation_class = operation.operation_class;
      ++sum.operations;
      sum.time += entry.time;
      previous = &operation;
    }
    for (const auto& [group, sum] : classes_) prediction.classes.push_back(sum);
    std::ranges::stable_sort(prediction.classes, std::ranges::greater(), &ClassTime::time);
    return queued;
  }

  /// Returns the evidence of most of the kernels' time.
  [[nodiscard]] cost::Evidence evidence() const {
    const auto most =
        std::ranges::max_element(evidence_, {}, &decltype(evidence_)::value_type::second);
    return most == evidence_.end() ? cost::Evidence::kAnalytic : most->first;
  }

  /// Returns the bar of a step's time in which the device waits for the host for `idle`. Copies are
  /// assumed to err like the rest.
  [[nodiscard]] double relative_error(Duration busy, Duration idle) const {
    const double seconds = to_seconds(busy + idle);
    const double slack = slack_seconds_ + kHostError * to_seconds(idle);
    return seconds > 0 ? slack / seconds : kHostError;
  }

 private:
  Duration kernel_time(const cost::RecordedOperation& operation, StepPrediction& prediction) {
    const cost::DescribedOperation described = operation.at(0);
    const cost::OperationCost cost = model_.price(described);
    prediction.parts[static_cast<std::size_t>(model_.limit(described))] += cost.estimate.time;
    prediction.busy += cost.estimate.time;
    slack_seconds_ += to_seconds(cost.estimate.time) * cost.estimate.relative_error;
    evidence_[cost.estimate.evidence] += cost.estimate.time;
    return cost.estimate.time;
  }

  const record::ProgramWork& work_;
  cost::OperationCostModel model_;
  double link_;
  profile::OperationParameters host_;
  std::map<OperationClass, ClassTime> classes_;
  double slack_seconds_ = 0;  ///< sum of bar times time, assuming that all operations err alike.
  std::map<cost::Evidence, Duration> evidence_;  ///< of the operations' times.
};
static_assert(static_cast<int>(StepLimit::kCompute) == static_cast<int>(cost::Limit::kCompute) &&
              static_cast<int>(StepLimit::kMemory) == static_cast<int>(cost::Limit::kMemory) &&
              static_cast<int>(StepLimit::kLatency) == static_cast<int>(cost::Limit::kLatency));

/// Returns how long a step took in the recording.
Duration recorded_time(const record::ProgramWork& work, const StepRange& step) {
  TimePoint before{}, after{};
  for (std::size_t i = 0; i < step.end; ++i) {
    TimePoint& latest = i < step.begin ? before : after;
    latest = std::max(latest, work.events[i].time);
  }
  return std::max(after - before, Duration::zero());
}

}  // namespace

StepLimit StepPrediction::limit() const {
  return static_cast<StepLimit>(std::ranges::max_element(parts) - parts.begin());
}

StepPrediction predict_step(const record::ProgramWork& work, const StepRange& step,
                            const profile::GpuSpec& recorded, const profile::GpuSpec& gpu) {
  StepPrediction prediction;
  Pricing pricing(work, recorded, gpu);
  const std::vector<QueuedEvent> queued = pricing.price(step, prediction);
  StepQueue queue(queued, recorded_time(work, step));
  TimePoint before{}, after{};
  for (int i = 0; i < kRepetitions; ++i) before = std::exchange(after, queue.run());
  // Streams may not have reached a steady state; no step is shorter than its kernels.
  const Duration time = std::max(after - before, prediction.busy);
  const Duration copies =
      std::clamp(queue.copies_alone(), Duration::zero(), time - prediction.busy);
  const Duration idle = time - prediction.busy - copies;
  prediction.parts[static_cast<std::size_t>(StepLimit::kCopy)] = copies;
  prediction.parts[static_cast<std::size_t>(StepLimit::kHost)] = idle;
  prediction.time = {.time = time,
                     .evidence = pricing.evidence(),
                     .relative_error = pricing.relative_error(prediction.busy, idle)};
  return prediction;
}

}  // namespace gpemu::predict
