// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/trainer.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "gpemu/base/saturate.hpp"

#include "run_faults.hpp"

namespace gpemu::train {
namespace {

using device::Engine;

/// Device memory of one GPU, given back at the end of the run.
class HeldMemory {
 public:
  explicit HeldMemory(device::Device& device) : device_(&device) {}
  HeldMemory(HeldMemory&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), addresses_(std::move(other.addresses_)) {}
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;
  HeldMemory& operator=(HeldMemory&&) = delete;
  ~HeldMemory() {
    if (device_ == nullptr) return;
    for (const device::DeviceAddress address : addresses_) {
      GPEMU_CHECK(device_->free(address).has_value(), "an allocation of the run is gone");
    }
  }

  Result<void> take(Bytes bytes) {
    if (bytes == 0) return {};
    GPEMU_ASSIGN(const device::DeviceAddress address, device_->allocate(bytes));
    addresses_.push_back(address);
    return {};
  }

 private:
  device::Device* device_;
  std::vector<device::DeviceAddress> addresses_;
};

/// One GPU of the run.
struct Rank {
  explicit Rank(device::Device& gpu) : device(&gpu), memory(gpu) {}

  device::Device* device;
  HeldMemory memory;
  std::unique_ptr<device::Stream> compute_stream;
  std::unique_ptr<device::Stream> copy_stream;  ///< only where copies overlap with compute.
  TimePoint done;                               ///< when its queued work ends.
  double stretch = 1;  ///< how much longer than planned its last computation takes.

  void compute(const StepPart& part, GpuStep& record) {
    const device::Interval interval = compute_stream->launch(part.cost.time);
    const double planned = to_seconds(part.cost.time);
    stretch = planned > 0 ? to_seconds(interval.end - interval.start) / planned : 1;
    done = interval.end;
    record.compute.push_back(interval);
  }

  /// Returns when it has the data of an exchange.
  [[nodiscard]] TimePoint ready_for(const StepPart& exchange) const {
    if (stretch == 1) return done - exchange.before_end;
    return done - from_seconds(to_seconds(exchange.before_end) * stretch);
  }

  void wait_until(TimePoint time) {
    if (time <= done) return;
    compute_stream->wait(device::Moment(time));
    done = time;
  }
};

/// A step on the timeline whose end the host has not waited for yet.
struct QueuedStep {
  ObservedStep record;
  TimePoint copy_end;
  std::shared_ptr<void> buffer;
};

Result<void> take_memory(Rank& rank, const StepPlan& plan, const TrainOptions& options) {
  GPEMU_TRY(rank.memory.take(plan.cost.memory.peak + plan.cost.memory.reserved));
  // The batch that is being copied while the one before is in use.
  if (options.overlap_copy) GPEMU_TRY(rank.memory.take(plan.input_bytes));
  return {};
}

}  // namespace

struct Trainer::State {
  StepPlan plan;
  TrainOptions options;
  sim::Clock* clock = nullptr;
  std::vector<Rank> ranks;
  std::optional<RunFaults> faults;

  // Of the run in progress.
  std::deque<QueuedStep> queue;
  TimePoint exchanged;  ///< when the last exchange ends.
  std::vector<StallAccount> accounts;
  device::Interval feeding;  ///< when the host last was waiting for a batch and queueing its step.
  TrainResult result;

  void start();
  [[nodiscard]] bool far_ahead() const;
  [[nodiscard]] bool enqueue(SourceBatch batch, const device::Interval& batch_wait);
  TimePoint enqueue_copies(ObservedStep& record);
  void enqueue_parts(ObservedStep& record);
  [[nodiscard]] device::Interval exchange(const StepPart& part);
  void note_waits(const StepPart& part, TimePoint start);
  void release_copied_buffers();
  void complete_oldest(const Observer& observer);
  void account(const ObservedStep& record);
  void add_evidence(bool copied);
  void finish();

  [[nodiscard]] const cost::Estimate& copy_cost() const {
    return options.pinned ? plan.cost.copy_pinned : plan.cost.copy_pageable;
  }
};

void Trainer::State::start() {
  queue.clear();
  feeding = {};
  result = TrainResult{};
  result.start = clock->now();
  accounts.assign(ranks.size(), StallAccount(result.start));
  result.waited_for.assign(static_cast<std::size_t>(plan.gpus), {});
  const device::MemoryInfo memory = ranks.front().device->memory_info();
  result.memory_peak = memory.held;
  result.memory_capacity = memory.total;
}

/// Returns whether the host is so far ahead that it has to wait for the oldest step.
bool Trainer::State::far_ahead() const {
  if (queue.size() < static_cast<std::size_t>(options.run_ahead)) return false;
  const ObservedStep& last = queue.back().record;
  return last.copied || last.end - clock->now() >= options.queued_time;
}

/// Queues the copies of a batch, one GPU's share on each, and returns when the last one ends.
TimePoint Trainer::State::enqueue_copies(ObservedStep& record) {
  TimePoint last_end{};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    device::Stream& compute = *ranks[i].compute_stream;
    device::Stream& stream = options.overlap_copy ? *ranks[i].copy_stream : compute;
    record.gpus[i].copy =
        stream.copy(Engine::kCopyHostToDevice, plan.input_bytes, copy_cost().time);
    if (options.overlap_copy) {
      device::Event copied;
      stream.record(copied);
      compute.wait(copied);
    }
    last_end = std::max(last_end, record.gpus[i].copy.end);
    ranks[i].done = std::max(ranks[i].done, record.gpus[i].copy.end);
  }
  if (!options.pinned) clock->wait_until(last_end);
  return last_end;
}

/// Queues the parts of a step. Exchanges take no engine: their times follow from those of the
/// computations, so the effort is linear in the number of devices.
void Trainer::State::enqueue_parts(ObservedStep& record) {
  const TimePoint now = clock->now();
  for (Rank& rank : ranks) rank.done = std::max(rank.done, now);
  for (const StepPart& part : plan.parts) {
    if (part.exchange) {
      record.exchanges.push_back(exchange(part));
      continue;
    }
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (part.first_gpu_only && i > 0) {
        record.gpus[i].compute.push_back({.start = ranks[i].done, .end = ranks[i].done});
        ranks[i].stretch = 1;
        continue;
      }
      ranks[i].wait_until(exchanged);
      ranks[i].compute(part, record.gpus[i]);
    }
  }
  for (Rank& rank : ranks) rank.wait_until(exchanged);
}

/// Returns when the GPUs exchange data.
device::Interval Trainer::State::exchange(const StepPart& part) {
  device::Interval exchange{.start = exchanged};
  for (const Rank& rank : ranks) exchange.start = std::max(exchange.start, rank.ready_for(part));
  note_waits(part, exchange.start);
  Duration time = part.cost.time;
  if (faults) {
    faults->count_exchange(exchange.start);
    const double share = faults->link_share(exchange.start);
    if (share < 1 && part.at_link_share) time = part.at_link_share(share);
    if (!result.failure) result.failure = faults->broken_link(exchange.start);
  }
  exchange.end = exchanged = saturating_add(exchange.start, time);
  return exchange;
}

/// Counts for how long GPUs stand still before an exchange because the last one is late.
void Trainer::State::note_waits(const StepPart& part, TimePoint start) {
  if (start == exchanged || ranks.size() < 2) return;
  double waited_s = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].ready_for(part) == start) last = i;
    // Until it has computed what it has queued, it does not stand still.
    const TimePoint idle = std::min(std::max(ranks[i].done, exchanged), start);
    // The last device stands for all further GPUs.
    const std::size_t stands_for =
        i + 1 == ranks.size() ? static_cast<std::size_t>(plan.gpus) - i : 1;
    waited_s += to_seconds(start - idle) * static_cast<double>(stands_for);
  }
  result.waited_for[last] += from_seconds(waited_s / (plan.gpus - 1));
}

/// Returns false if a fault ends the run in this step, which then does not count.
bool Trainer::State::enqueue(SourceBatch batch, const device::Interval& batch_wait) {
  QueuedStep step;
  ObservedStep& record = step.record;
  record.index = result.steps.size() + static_cast<std::int64_t>(queue.size());
  record.epoch = batch.epoch;
  record.samples = batch.samples;
  record.work = batch.work;
  record.batch_wait = batch_wait;
  record.copied = !batch.on_device;
  record.gpus.resize(ranks.size());
  if (record.copied) step.copy_end = enqueue_copies(record);
  enqueue_parts(record);
  for (const Rank& rank : ranks) record.end = std::max(record.end, rank.done);
  if (faults) {
    const TimePoint end = result.failure ? result.failure->time : record.end;
    if (auto first = faults->first_between(result.start, end)) result.failure = first;
    if (result.failure) return false;
  }
  step.buffer = std::move(batch.buffer);
  queue.push_back(std::move(step));
  return true;
}

/// Gives the buffers back whose copy has ended: a pinned one is read until then.
void Trainer::State::release_copied_buffers() {
  const TimePoint now = clock->now();
  for (QueuedStep& step : queue) {
    if (step.copy_end <= now) step.buffer.reset();
  }
}

void Trainer::State::complete_oldest(const Observer& observer) {
  ObservedStep& record = queue.front().record;
  record.end_wait.start = clock->now();
  clock->wait_until(record.end);
  record.end_wait.end = clock->now();
  account(record);
  if (observer) observer(record);
  queue.pop_front();
}

void Trainer::State::account(const ObservedStep& record) {
  if (result.epochs.empty() || result.epochs.back().epoch != record.epoch) {
    result.epochs.push_back(EpochSummary{.epoch = record.epoch});
  }
  TimeBreakdown first_gpu;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const TimeBreakdown time =
        accounts[i].add_step(record.gpus[i], record.exchanges, record.batch_wait, record.work);
    if (i == 0) first_gpu = time;
  }
  EpochSummary& epoch = result.epochs.back();
  ++epoch.steps;
  epoch.samples += record.samples;
  epoch.time += first_gpu;
  if (result.steps.empty()) {
    result.first_step = first_gpu;
    result.first_step_samples = record.samples;
  }

  const bool seen_late = feeding.start <= record.end && record.end <= feeding.end;
  result.steps.add({.end = record.end,
                    .observed_end = seen_late ? record.end : record.end_wait.end,
                    .fetch_wait = first_gpu.fetch_wait,
                    .prep_wait = first_gpu.prep_wait});
  result.samples += record.samples;
  result.work.fetch += record.work.fetch;
  result.work.prep += record.work.prep;
  result.work.bytes_read += record.work.bytes_read;
  result.work.corrupt += record.work.corrupt;
  add_evidence(record.copied);
}

void Trainer::State::add_evidence(bool copied) {
  const auto add = [this](const cost::Estimate& estimate) {
    result.evidence[static_cast<std::size_t>(estimate.evidence)] += estimate.time;
  };
  if (copied) add(copy_cost());
  for (const StepPart& part : plan.parts) add(part.cost);
}

void Trainer::State::finish() {
  TimePoint end = result.start;
  for (const StallAccount& account : accounts) end = std::max(end, account.accounted_until());
  if (result.failure) clock->wait_until(result.failure->time);
  result.elapsed = end - result.start;
  for (StallAccount& account : accounts) {
    account.finish(end);
    result.gpus.push_back(account.time());
  }
  result.gpus.resize(static_cast<std::size_t>(plan.gpus), result.gpus.back());
}

Trainer::Trainer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

Result<Trainer> Trainer::create(const StepPlan& plan, const TrainOptions& options,
                                std::span<device::Device* const> devices) {
  const auto count = static_cast<int>(devices.size());
  GPEMU_CHECK(plan.gpus >= 1 && (count == plan.gpus || count == plan.distinct_gpus()),
              "a trainer takes as many devices as its plan has GPUs, or distinct ones");
  if (options.overlap_copy && !options.pinned) {
    return fail(ErrorCode::kInvalidArgument,
                "copies can overlap with compute only from pinned memory");
  }
  if (options.run_ahead < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "the number of steps to run ahead ({}) must be at least 1", options.run_ahead);
  }
  auto state = std::make_unique<State>();
  state->plan = plan;
  state->options = options;
  state->clock = &devices.front()->clock();
  for (device::Device* device : devices) {
    Rank& rank = state->ranks.emplace_back(*device);
    GPEMU_TRY(take_memory(rank, plan, options));
    rank.compute_stream = device->create_stream();
    if (options.overlap_copy) rank.copy_stream = device->create_stream();
  }
  if (!devices.front()->node().faults().empty()) state->faults.emplace(plan, devices);
  return Trainer(std::move(state));
}

Result<TrainResult> Trainer::run(BatchSource& source, const std::atomic<bool>& stop,
                                 const Observer& observer) {
  State& state = *state_;
  state.start();
  while (true) {
    while (state.far_ahead()) state.complete_oldest(observer);
    state.release_copied_buffers();
    if (stop.load(std::memory_order_relaxed)) {
      state.result.stopped = true;
      break;
    }
    const TimePoint asked = state.clock->now();
    GPEMU_ASSIGN(std::optional<SourceBatch> batch, source.next());
    if (!batch) {
      // A source that waits for other nodes ends when the run is stopped.
      state.result.stopped = stop.load(std::memory_order_relaxed);
      break;
    }
    if (!state.enqueue(*std::move(batch), device::Interval{asked, state.clock->now()})) break;
    state.feeding = {asked, state.clock->now()};
  }
  while (!state.queue.empty()) state.complete_oldest(observer);
  state.finish();
  return std::move(state.result);
}

TimeBreakdown TrainResult::steady_time() const {
  if (steps.size() < 2) return gpus.front();
  TimeBreakdown time = gpus.front();
  return time -= first_step;
}

double TrainResult::steady_samples_per_s() const {
  const Duration time = steady_time().total();
  if (time <= Duration::zero()) return 0;
  const std::int64_t counted = steps.size() < 2 ? samples : samples - first_step_samples;
  return static_cast<double>(counted) / to_seconds(time);
}

}  // namespace gpemu::train
