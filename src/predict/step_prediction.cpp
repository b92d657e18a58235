// SPDX-License-Identifier: Apache-2.0
#include "gpemu/predict/step_prediction.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "gpemu/calibrate/recorded_steps.hpp"
#include "gpemu/cost/operation_time.hpp"

#include "step_queue.hpp"

namespace gpemu::predict {
namespace {

using cost::OperationClass;
using Kind = WorkEvent::Kind;

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

bool is_layer(OperationClass group) {
  return group == OperationClass::kMatmul || group == OperationClass::kConvolution ||
         group == OperationClass::kAttention || group == OperationClass::kRecurrent;
}

/// Tells for each event of a step whether it belongs to the forward pass: what the step's first
/// thread asks for, from its first layer behind the backward pass to the next backward pass.
/// PyTorch asks for the backward pass on a thread of its own. The step is a circle.
std::vector<bool> forward_events(const ProgramWork& work, const StepRange& step) {
  const std::size_t count = step.end - step.begin;
  std::vector<bool> forward(count, true);
  std::optional<std::int64_t> main;
  bool other = false;
  for (std::size_t i = step.begin; i < step.end; ++i) {
    const WorkEvent& event = work.events[i];
    if (event.kind != Kind::kOperation) continue;
    if (!main) main = event.thread;
    other |= event.thread != *main;
  }
  if (!other) return forward;  // Nothing tells.
  bool in_forward = false;
  for (std::size_t i = 0; i < 2 * count; ++i) {
    const WorkEvent& event = work.events[step.begin + i % count];
    if (event.kind == Kind::kOperation) {
      if (event.thread != *main) {
        in_forward = false;
      } else if (is_layer(work.operations[event.index].operation_class)) {
        in_forward = true;
      }
    }
    forward[i % count] = in_forward;
  }
  return forward;
}

/// Prices the events of a step, and adds up what they take.
class Pricing {
 public:
  Pricing(const ProgramWork& work, const profile::GpuSpec& recorded, const profile::GpuSpec& gpu)
      : work_(work),
        model_(gpu),
        link_(recorded.pinned_copy_bytes_per_s / gpu.pinned_copy_bytes_per_s),
        host_(host_parameters(gpu)) {}

  std::vector<QueuedEvent> price(const StepRange& step, StepPrediction& prediction) {
    const std::vector<bool> forward = forward_events(work_, step);
    const cost::RecordedOperation* previous = nullptr;
    std::vector<QueuedEvent> queued;
    for (std::size_t i = step.begin; i < step.end; ++i) {
      const WorkEvent& event = work_.events[i];
      QueuedEvent& entry = queued.emplace_back(
          QueuedEvent{.kind = event.kind, .stream = event.stream, .recorded = event.time});
      if (event.kind == Kind::kWait) entry.launch = from_seconds(host_[cost::kHostForward]);
      if (event.kind > Kind::kCopyFromDevice) continue;
      const cost::RecordedOperation& operation = work_.operations[event.index];
      const auto parameter = calibrate::host_cost(operation, previous, forward[i - step.begin]);
      entry.launch = from_seconds(host_[parameter] * host_[cost::kHostScale]);
      entry.time = is_copy(event.kind) ? from_seconds(to_seconds(event.duration) * link_)
                                       : kernel_time(operation, prediction);
      prediction.host += entry.launch;
      total_seconds_ += to_seconds(entry.time);
      ClassTime& sum = classes_[operation.operation_class];
      sum.operation_class = operation.operation_class;
      ++sum.operations;
      sum.time += entry.time;
      previous = &operation;
    }
    prediction.time.relative_error = total_seconds_ > 0 ? slack_seconds_ / total_seconds_ : 0;
    for (const auto& [group, sum] : classes_) prediction.classes.push_back(sum);
    std::ranges::stable_sort(prediction.classes, std::ranges::greater(), &ClassTime::time);
    return queued;
  }

 private:
  Duration kernel_time(const cost::RecordedOperation& operation, StepPrediction& prediction) {
    const cost::OperationCost cost = model_.price(operation.at(0));
    prediction.parts[static_cast<std::size_t>(cost.limit)] += cost.estimate.time;
    prediction.busy += cost.estimate.time;
    slack_seconds_ += to_seconds(cost.estimate.time) * cost.estimate.relative_error;
    return cost.estimate.time;
  }

  const ProgramWork& work_;
  cost::OperationCostModel model_;
  double link_;
  profile::OperationParameters host_;
  std::map<OperationClass, ClassTime> classes_;
  double total_seconds_ = 0;
  double slack_seconds_ = 0;  ///< half-widths of the operations' times, taken to be off alike.
};
static_assert(static_cast<int>(StepLimit::kCompute) == static_cast<int>(cost::Limit::kCompute) &&
              static_cast<int>(StepLimit::kMemory) == static_cast<int>(cost::Limit::kMemory) &&
              static_cast<int>(StepLimit::kLatency) == static_cast<int>(cost::Limit::kLatency));

/// Returns what a step took where it was recorded.
Duration recorded_time(const ProgramWork& work, const StepRange& step) {
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

StepPrediction predict_step(const ProgramWork& work, const StepRange& step,
                            const profile::GpuSpec& recorded, const profile::GpuSpec& gpu) {
  StepPrediction prediction;
  const std::vector<QueuedEvent> queued = Pricing(work, recorded, gpu).price(step, prediction);
  StepQueue queue(queued, recorded_time(work, step));
  TimePoint before{}, after{};
  for (int i = 0; i < kRepetitions; ++i) before = std::exchange(after, queue.run());
  prediction.time.time = after - before;
  prediction.time.evidence = cost::Evidence::kAnalytic;
  const Duration copies =
      std::clamp(queue.copies_alone(), Duration::zero(), prediction.time.time - prediction.busy);
  prediction.parts[static_cast<std::size_t>(StepLimit::kCopy)] = copies;
  prediction.parts[static_cast<std::size_t>(StepLimit::kHost)] =
      std::max(prediction.time.time - prediction.busy - copies, Duration::zero());
  return prediction;
}

}  // namespace gpemu::predict
