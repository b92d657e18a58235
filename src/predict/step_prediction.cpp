// SPDX-License-Identifier: Apache-2.0
#include "gpemu/predict/step_prediction.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "gpemu/cost/operation_time.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/step/host_times.hpp"
#include "gpemu/step/listed_tensors.hpp"
#include "gpemu/step/phase_time.hpp"
#include "gpemu/step/rank_slowdown.hpp"
#include "gpemu/step/step_bar.hpp"

#include "step_queue.hpp"

namespace gpemu::predict {
namespace {

using kernels::OperationClass;
using Kind = record::WorkEvent::Kind;

/// Repetitions until steps follow each other as in a long run.
constexpr int kRepetitions = 6;

using step::kHostError;

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

/// Returns the operations and copies of a step, in their order.
std::vector<const step::RecordedOperation*> operations_of(const record::ProgramWork& work,
                                                          const StepRange& step) {
  std::vector<const step::RecordedOperation*> operations;
  for (std::size_t i = step.begin; i < step.end; ++i) {
    const record::WorkEvent& event = work.events[i];
    if (event.kind <= Kind::kCopyFromDevice) operations.push_back(&work.operations[event.index]);
  }
  return operations;
}

/// Prices the events of a step, and adds up their times.
class Pricing {
 public:
  Pricing(const record::ProgramWork& work, const profile::GpuSpec& recorded,
          const profile::GpuSpec& gpu, const PriceCollective& price)
      : work_(work),
        price_(price),
        gpu_(gpu),
        model_(gpu),
        link_(recorded.pinned_copy_bytes_per_s / gpu.pinned_copy_bytes_per_s),
        host_(gpu) {}

  std::vector<QueuedEvent> price(const StepRange& step, StepPrediction& prediction) {
    const std::vector<bool> forward = forward_events(work_, step);
    trains_ = std::ranges::find(forward, false) != forward.end();
    const std::vector<const step::RecordedOperation*> operations = operations_of(work_, step);
    step::ListedTensors listed_tensors;
    for (const step::RecordedOperation* const operation : operations) {
      listed_tensors.add(*operation);
    }
    const std::optional<double> optimizer = host_.listed_launch(listed_tensors);
    std::size_t place = 0;  // Among the operations.
    std::vector<QueuedEvent> queued;
    for (std::size_t i = step.begin; i < step.end; ++i) {
      const record::WorkEvent& event = work_.events[i];
      QueuedEvent& entry = queued.emplace_back(
          QueuedEvent{.kind = event.kind, .stream = event.stream, .recorded = event.time});
      if (event.kind == Kind::kWait) entry.launch = from_seconds(host_.wait(true));
      if (event.kind == Kind::kEventRecord || event.kind == Kind::kEventWait) {
        entry.event = event.index;
      }
      if (event.kind == Kind::kCollective && price_) price_collective(event, entry, prediction);
      if (event.kind > Kind::kCopyFromDevice) continue;
      const step::RecordedOperation& operation = *operations[place];
      const step::Neighbours neighbours{
          .previous = place > 0 ? operations[place - 1] : nullptr,
          .next = place + 1 < operations.size() ? operations[place + 1] : nullptr};
      ++place;
      const bool listed = optimizer && operation.operation_class == OperationClass::kOptimizer;
      entry.launch = from_seconds(
          listed ? *optimizer : host_.launch(operation, neighbours, forward[i - step.begin]));
      entry.time = is_copy(event.kind) ? from_seconds(to_seconds(event.duration) * link_)
                                       : kernel_time(operation, prediction);
      prediction.host += entry.launch;
      ClassTime& sum = classes_[operation.operation_class];
      sum.operation_class = operation.operation_class;
      ++sum.operations;
      sum.time += entry.time;
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

  /// Returns the bar of a step's time for which kernels run for `busy` and the host needs `host`.
  /// Copies and what both wait for each other are assumed to err like the rest.
  [[nodiscard]] double relative_error(Duration busy, Duration host) const {
    return step::bar_of_longer({.time = to_seconds(busy), .bar = kernel_error(busy)},
                               {.time = to_seconds(host), .bar = kHostError});
  }
  /// Returns the bar of all kernels, which run for `busy`.
  [[nodiscard]] double kernel_error(Duration busy) const {
    return busy > Duration::zero() ? step::bar_of_mixed(slack_seconds_ / to_seconds(busy)) : 0;
  }
  /// Returns the bars of the collectives, in the order of the queue.
  [[nodiscard]] const std::vector<double>& collective_errors() const { return collective_errors_; }

 private:
  void price_collective(const record::WorkEvent& event, QueuedEvent& entry,
                        StepPrediction& prediction) {
    const CollectivePrice price = price_(work_.collectives[event.index]);
    // A call of a library, like a matrix product.
    entry.launch = from_seconds(host_.launch(cost::kHostOperation));
    entry.time = price.time;
    prediction.host += entry.launch;
    collective_errors_.push_back(price.relative_error);
  }

  Duration kernel_time(const step::RecordedOperation& operation, StepPrediction& prediction) {
    const kernels::DescribedOperation described = operation.at(0);
    const cost::OperationCost cost = model_.price(described);
    prediction.parts[static_cast<std::size_t>(model_.limit(described))] += cost.estimate.time;
    prediction.busy += cost.estimate.time;
    const double bytes = cost::operation_work(described, gpu_).bytes;
    prediction.traffic +=
        std::min(from_seconds(bytes / gpu_.memory_bandwidth_bytes_per_s), cost.estimate.time);
    ++prediction.kernels;
    slack_seconds_ += to_seconds(cost.estimate.time) *
                      (trains_ ? cost.training_error : cost.estimate.relative_error);
    evidence_[cost.estimate.evidence] += cost.estimate.time;
    return cost.estimate.time;
  }

  const record::ProgramWork& work_;
  const PriceCollective& price_;
  std::vector<double> collective_errors_;
  const profile::GpuSpec& gpu_;
  cost::OperationCostModel model_;
  double link_;
  step::HostTimes host_;
  std::map<OperationClass, ClassTime> classes_;
  bool trains_ = false;
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

/// A step among many of the same.
struct SteadyStep {
  Duration time{}, copies{}, collectives{}, exposed{};
};

SteadyStep run_steadily(const std::vector<QueuedEvent>& queued, Duration circle) {
  StepQueue queue(queued, circle);
  TimePoint before{}, after{};
  for (int i = 0; i < kRepetitions; ++i) before = std::exchange(after, queue.run());
  Duration busy{};
  for (const QueuedEvent& event : queued) {
    if (event.kind == Kind::kOperation) busy += event.time;
  }
  // Streams may not have reached a steady state; no step is shorter than its kernels.
  const Duration time = std::max(after - before, busy);
  const Duration exposed = std::clamp(queue.collectives_alone(), Duration::zero(), time - busy);
  return {.time = time,
          .copies = std::clamp(queue.copies_alone(), Duration::zero(), time - busy),
          .collectives = std::max(queue.collectives(), exposed),
          .exposed = exposed};
}

/// Returns the most ranks that meet in a collective of a step.
int ranks_of(const record::ProgramWork& work, const StepRange& step) {
  int ranks = 1;
  for (std::size_t i = step.begin; i < step.end; ++i) {
    const record::WorkEvent& event = work.events[i];
    if (event.kind == Kind::kCollective) {
      ranks = std::max(ranks, work.collectives[event.index].ranks);
    }
  }
  return ranks;
}

/// Returns a step of several ranks: kernels take a share of the time longer in which collectives
/// run beside them, and the whole step as much as its slowest rank.
SteadyStep slowed(SteadyStep step, double beside, double slowest) {
  const double hidden = to_seconds(step.collectives - step.exposed);
  step.time = from_seconds((to_seconds(step.time) + beside * hidden) * (1 + slowest));
  return step;
}

/// Adds up what a step's time goes into.
void add_times(const Pricing& pricing, const SteadyStep& steady, StepPrediction& prediction) {
  const Duration idle = steady.time - prediction.busy - steady.copies;
  prediction.parts[static_cast<std::size_t>(StepLimit::kCopy)] = steady.copies;
  prediction.parts[static_cast<std::size_t>(StepLimit::kHost)] = idle;
  prediction.time = {.time = steady.time,
                     .evidence = pricing.evidence(),
                     .relative_error = pricing.relative_error(prediction.busy, prediction.host)};
  prediction.kernel_error = pricing.kernel_error(prediction.busy);
}

/// Returns a queue whose kernels take other times and, if they are `slow`, whose collectives take
/// as long as their bars allow, or else as short.
std::vector<QueuedEvent> scaled(std::vector<QueuedEvent> queued, double kernels,
                                std::span<const double> bars, bool slow) {
  auto bar = bars.begin();
  for (QueuedEvent& event : queued) {
    if (event.kind == Kind::kOperation) event.time = from_seconds(to_seconds(event.time) * kernels);
    if (event.kind != Kind::kCollective || bar == bars.end()) continue;
    const double factor = slow ? 1 + *bar : 1 / (1 + *bar);
    event.time = from_seconds(to_seconds(event.time) * factor);
    ++bar;
  }
  return queued;
}

}  // namespace

StepLimit StepPrediction::limit() const {
  return static_cast<StepLimit>(std::ranges::max_element(parts) - parts.begin());
}

/// How many times as long or as short the launches may take in a host that nobody knows. Set by
/// hand: on other hosts, small batches take half or twice the time
/// (docs/design/operation-costs.md).
constexpr double kOtherHost = 2;

StepLoad gpu_load(const StepPrediction& step) {
  const double busy = to_seconds(step.busy);
  if (busy <= 0) return {};
  const double rest = to_seconds(step.time.time) - busy;
  const double filling = to_seconds(step.parts[static_cast<std::size_t>(StepLimit::kCompute)] +
                                    step.parts[static_cast<std::size_t>(StepLimit::kMemory)]);
  // If kernels take `kernels` times as long, and the host `host` times.
  const auto load_if = [&](double kernels, double host) {
    const double seconds = std::max(kernels * busy + host * rest, host * to_seconds(step.host));
    return cost::GpuLoad{.busy = kernels * busy / seconds,
                         .memory = kernels * to_seconds(step.traffic) / seconds,
                         .width = filling / busy,
                         .kernel = from_seconds(kernels * busy / step.kernels)};
  };
  const double kernels = 1 + step.kernel_error, host = kOtherHost;
  return {.predicted = load_if(1, 1),
          .least = load_if(1 / kernels, host),
          .most = load_if(kernels, 1 / host)};
}

StepPrediction predict_step(const record::ProgramWork& work, const StepRange& step,
                            const profile::GpuSpec& recorded, const profile::GpuSpec& gpu) {
  StepPrediction prediction;
  const PriceCollective nothing;
  Pricing pricing(work, recorded, gpu, nothing);
  const std::vector<QueuedEvent> queued = pricing.price(step, prediction);
  const SteadyStep steady = run_steadily(queued, recorded_time(work, step));
  add_times(pricing, steady, prediction);
  return prediction;
}

ParallelStep predict_parallel_step(const record::ProgramWork& work, const StepRange& step,
                                   const profile::GpuSpec& recorded, const profile::GpuSpec& gpu,
                                   const PriceCollective& price) {
  ParallelStep result;
  Pricing pricing(work, recorded, gpu, price);
  const std::vector<QueuedEvent> queued = pricing.price(step, result.step);
  const Duration circle = recorded_time(work, step);
  const int ranks = ranks_of(work, step);
  const auto run_with = [&](double kernels, bool slow) {
    return run_steadily(scaled(queued, kernels, pricing.collective_errors(), slow), circle);
  };
  const auto most_slowed = [&](const SteadyStep& steady) {
    return slowed(steady, step::kMostSlowedBeside,
                  step::slowest_of(ranks, step::kMostGpuVariation));
  };
  const SteadyStep alone = run_steadily(queued, circle);
  const SteadyStep steady = slowed(alone, step::kSlowedBeside, step::slowest_of(ranks));
  add_times(pricing, steady, result.step);
  result.collectives = steady.collectives;
  result.exposed = steady.exposed;
  const double error = pricing.kernel_error(result.step.busy);
  result.with_slow_collectives = most_slowed(run_with(1 / (1 + error), true)).time;
  result.with_slow_kernels = run_with(1 + error, false).time;
  // What several ranks add errs as collectives and slow ranks do.
  const Duration added = steady.exposed + (steady.time - alone.time);
  const double slack = to_seconds(most_slowed(run_with(1, true)).time - steady.time);
  cost::Estimate& time = result.step.time;
  const double seconds = to_seconds(time.time);
  if (seconds > 0) {
    time.relative_error =
        (time.relative_error * (seconds - to_seconds(added)) + std::max(slack, 0.0)) / seconds;
  }
  return result;
}

}  // namespace gpemu::predict
