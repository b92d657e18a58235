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

/// Steps that are run until one follows the other as in a long run.
constexpr int kRepetitions = 6;

/// What the host takes to launch operations: that of the GPU's measured steps, or what is expected
/// where nobody measured any.
profile::OperationParameters host_parameters(const profile::GpuSpec& gpu) {
  if (gpu.calibration) return gpu.calibration->parameters;
  profile::OperationParameters parameters{};
  std::ranges::transform(profile::kOperationParameters, parameters.begin(),
                         &profile::Parameter::typical);
  return parameters;
}

/// The bar of what the host takes: another one than that which was measured may be twice as fast
/// or slow. Set by hand.
constexpr double kHostError = 1.0;

/// Tells for each event of a step whether it belongs to the forward pass: what the program's first
/// thread asks for from its first layer to its last before the backward pass, which PyTorch asks
/// for from a thread of its own. What lies around them clears gradients and updates parameters. The
/// step is a circle.
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
  return has_backward ? forward : std::vector<bool>(count, true);  // Nothing tells.
}

/// Prices the events of a step, and adds up what they take.
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

  /// Returns what most of the kernels' time rests on.
  [[nodiscard]] cost::Evidence evidence() const {
    const auto most =
        std::ranges::max_element(evidence_, {}, &decltype(evidence_)::value_type::second);
    return most == evidence_.end() ? cost::Evidence::kAnalytic : most->first;
  }

  /// Returns the bar of a step's time, where the device waits for the host for
  /// `idle`. Copies are taken to be off as the rest is.
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
  double slack_seconds_ = 0;  ///< bars times the operations' times, taken to be off alike.
  std::map<cost::Evidence, Duration> evidence_;  ///< what the operations' times rest on.
};
static_assert(static_cast<int>(StepLimit::kCompute) == static_cast<int>(cost::Limit::kCompute) &&
              static_cast<int>(StepLimit::kMemory) == static_cast<int>(cost::Limit::kMemory) &&
              static_cast<int>(StepLimit::kLatency) == static_cast<int>(cost::Limit::kLatency));

/// Returns what a step took where it was recorded.
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
  // Streams may have found no steady state; no step is shorter than its kernels.
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
