// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/trainer.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>

#include "gpemu/base/mutex.hpp"

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

/// The times of work that did not run when it was expected to, or not in one go.
///
/// Thread safety: any thread, because any may find out that times are final.
class MovedWork {
 public:
  void add(const device::StartedWork& work) {
    if (work.moved == 0) return;
    const Lock lock(mutex_);
    Times& times = times_[work.moved];
    times.whole = {.start = work.start, .end = work.end};
    for (const device::Turn& turn : work.turns) times.turns.push_back({turn.start, turn.end});
  }

  /// Returns when work ran that has ended, and adds when its engine worked on it to `turns`.
  device::Interval take(const device::QueuedWork& work, std::vector<device::Interval>* turns) {
    const Lock lock(mutex_);
    Times times{.whole = work.expected};
    if (const auto found = times_.find(work.number); found != times_.end()) {
      times = std::move(found->second);
      times_.erase(found);
    }
    if (times.turns.empty()) times.turns = {times.whole};
    if (turns != nullptr) turns->insert(turns->end(), times.turns.begin(), times.turns.end());
    return times.whole;
  }

 private:
  struct Times {
    device::Interval whole;
    std::vector<device::Interval> turns;
  };
  Mutex mutex_;
  std::unordered_map<std::uint64_t, Times> times_ GPEMU_GUARDED_BY(mutex_);
};

/// One GPU of the run.
struct Rank {
  explicit Rank(device::Device& gpu)
      : device(&gpu), memory(gpu), moved(std::make_shared<MovedWork>()) {
    device->observe([moved = moved](const device::StartedWork& work) { moved->add(work); });
  }
  Rank(Rank&&) noexcept = default;
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  Rank& operator=(Rank&&) = delete;
  ~Rank() {
    if (moved) device->observe({});
  }

  device::Device* device;
  HeldMemory memory;
  std::shared_ptr<MovedWork> moved;
  std::unique_ptr<device::Stream> compute_stream;
  std::unique_ptr<device::Stream> copy_stream;  ///< only where copies overlap with compute.
};

/// An exchange on the timeline. Other processes may still move what it waits for.
struct QueuedExchange {
  std::size_t computed = 0;           ///< how many parts of the step the GPUs compute before it.
  std::vector<device::Moment> ready;  ///< when each GPU has the data.
  device::Moment start, end;
};

/// The work of a step on one GPU.
struct QueuedGpuStep {
  std::optional<device::QueuedWork> copy;
  std::vector<std::vector<device::QueuedWork>> compute;  ///< the pieces of each part.
};

/// A step on the timeline whose end the host has not waited for yet. Its record has no times of the
/// GPUs until then.
struct QueuedStep {
  ObservedStep record;
  std::vector<QueuedGpuStep> gpus;
  std::vector<QueuedExchange> exchanges;
  device::Moment copy_end, end;
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
  /// If there are several GPUs: the exchanges, and what all GPUs have finished.
  std::unique_ptr<device::Stream> exchange_stream;
  std::unique_ptr<device::Stream> copies_stream;  ///< likewise, the copies that all have finished.
  std::optional<RunFaults> faults;

  // Of the run in progress.
  std::deque<QueuedStep> queue;
  TimePoint exchanged;  ///< when the last exchange of the steps that have ended ended.
  std::vector<StallAccount> accounts;
  device::Interval feeding;  ///< when the host last was waiting for a batch and queueing its step.
  TrainResult result;

  void start();
  [[nodiscard]] bool far_ahead() const;
  [[nodiscard]] bool enqueue(SourceBatch batch, const device::Interval& batch_wait);
  void enqueue_copies(QueuedStep& step);
  void enqueue_parts(QueuedStep& step);
  void enqueue_exchange(const StepPart& part, std::vector<device::Moment> ready, QueuedStep& step);
  [[nodiscard]] std::vector<std::vector<device::Moment>> compute(
      const StepPart& part, std::span<const StepPart> exchanges, QueuedStep& step);
  [[nodiscard]] device::Moment all_of(device::Stream& stream,
                                      std::span<const device::Moment> moments) const;
  void note_times(QueuedStep& step);
  void note_waits(const QueuedExchange& exchange, const ObservedStep& record);
  void release_copied_buffers();
  [[nodiscard]] bool wait_for_end(const QueuedStep& step);
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
  exchanged = {};
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
  const QueuedStep& last = queue.back();
  return last.record.copied || last.end.time() - clock->now() >= options.queued_time;
}

/// Returns the moment at which all of some moments, of each GPU, have come.
device::Moment Trainer::State::all_of(device::Stream& stream,
                                      std::span<const device::Moment> moments) const {
  for (const device::Moment& moment : moments) stream.wait(moment);
  return stream.last_end();
}

/// Queues the copies of a batch, one GPU's share on each.
void Trainer::State::enqueue_copies(QueuedStep& step) {
  std::vector<device::Moment> ends;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    device::Stream& compute = *ranks[i].compute_stream;
    device::Stream& stream = options.overlap_copy ? *ranks[i].copy_stream : compute;
    step.gpus[i].copy = stream.copy(Engine::kCopyHostToDevice, plan.input_bytes, copy_cost().time);
    ends.push_back(stream.last_end());
    if (options.overlap_copy) compute.wait(ends.back());
  }
  step.copy_end = ranks.size() == 1 ? ends.front() : all_of(*copies_stream, ends);
  if (!options.pinned) step.copy_end.wait(*clock);
}

/// Queues a part that the GPUs compute, after all exchanges that are queued. Returns when each GPU
/// has the data of each of the exchanges that follow.
std::vector<std::vector<device::Moment>> Trainer::State::compute(
    const StepPart& part, std::span<const StepPart> exchanges, QueuedStep& step) {
  // The times before the end at which some exchange has its data cut it into pieces.
  std::vector<Duration> cuts = {Duration()};
  for (const StepPart& exchange : exchanges) {
    cuts.push_back(std::clamp(exchange.before_end, Duration(), part.cost.time));
  }
  std::ranges::sort(cuts, std::greater());
  std::vector<std::vector<device::Moment>> ready(exchanges.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    device::Stream& stream = *ranks[i].compute_stream;
    std::vector<device::QueuedWork>& pieces = step.gpus[i].compute.emplace_back();
    const bool takes_part = i == 0 || !part.first_gpu_only;
    if (takes_part && !step.exchanges.empty()) stream.wait(step.exchanges.back().end);
    Duration left = part.cost.time;
    for (const Duration cut : cuts) {
      if (takes_part && left > cut) pieces.push_back(stream.launch(left - cut));
      left = cut;
      for (std::size_t k = 0; k < exchanges.size(); ++k) {
        if (std::clamp(exchanges[k].before_end, Duration(), part.cost.time) != cut) continue;
        if (ready[k].size() == i) ready[k].push_back(stream.last_end());
      }
    }
  }
  return ready;
}

/// Queues an exchange, which takes no engine: it starts when the last GPU has the data, and the
/// exchange before it has ended. `ready`: when each GPU has them.
void Trainer::State::enqueue_exchange(const StepPart& part, std::vector<device::Moment> ready,
                                      QueuedStep& step) {
  QueuedExchange exchange{.computed = step.gpus.front().compute.size(), .ready = std::move(ready)};
  exchange_stream->wait(device::Moment(clock->now()));
  exchange.start = all_of(*exchange_stream, exchange.ready);
  Duration time = part.cost.time;
  if (faults) {
    const TimePoint start = exchange.start.time();
    faults->count_exchange(start);
    const double share = faults->link_share(start);
    if (share < 1 && part.at_link_share) time = part.at_link_share(share);
    if (!result.failure) result.failure = faults->broken_link(start);
  }
  exchange_stream->pause(time);
  exchange.end = exchange_stream->last_end();
  step.exchanges.push_back(std::move(exchange));
}

/// Queues the parts of a step. The effort is linear in the number of devices.
void Trainer::State::enqueue_parts(QueuedStep& step) {
  const std::span<const StepPart> parts = plan.parts;
  for (std::size_t next = 0; next < parts.size();) {
    const bool computes = !parts[next].exchange;
    std::size_t end = next + (computes ? 1 : 0);
    while (end < parts.size() && parts[end].exchange) ++end;
    std::vector<std::vector<device::Moment>> ready;
    const auto exchanges =
        parts.subspan(next + (computes ? 1 : 0), end - next - (computes ? 1 : 0));
    if (computes) {
      ready = compute(parts[next], exchanges, step);
    } else {
      ready.resize(exchanges.size());
      for (const Rank& rank : ranks) {
        for (auto& each : ready) each.push_back(rank.compute_stream->last_end());
      }
    }
    for (std::size_t k = 0; k < exchanges.size(); ++k) {
      enqueue_exchange(exchanges[k], std::move(ready[k]), step);
    }
    next = end;
  }
  std::vector<device::Moment> ends;
  for (const Rank& rank : ranks) {
    if (!step.exchanges.empty()) rank.compute_stream->wait(step.exchanges.back().end);
    ends.push_back(rank.compute_stream->last_end());
  }
  step.end = ranks.size() == 1 ? ends.front() : all_of(*exchange_stream, ends);
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
  step.gpus.resize(ranks.size());
  if (record.copied) enqueue_copies(step);
  enqueue_parts(step);
  if (faults) {
    const TimePoint end = result.failure ? result.failure->time : step.end.time();
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
    if (step.buffer && step.copy_end.is_over(now)) step.buffer.reset();
  }
}

/// Waits for the end of a step. Returns false if a fault ends the run before that.
bool Trainer::State::wait_for_end(const QueuedStep& step) {
  if (!faults) {
    step.end.wait(*clock);
    return true;
  }
  while (true) {
    const std::uint32_t seen = step.end.news();
    const TimePoint now = clock->now();
    const bool has_ended = step.end.is_over(now);
    const TimePoint until = has_ended ? step.end.time() : TimePoint::max();
    const std::optional<RunFailure> first = faults->first_between(result.start, until);
    if (first && (has_ended || first->time <= now)) {
      result.failure = first;
      return false;
    }
    if (has_ended) return true;
    step.end.wait_for_news(*clock, seen, first ? first->time : TimePoint::max());
  }
}

void Trainer::State::complete_oldest(const Observer& observer) {
  QueuedStep& step = queue.front();
  ObservedStep& record = step.record;
  record.end_wait.start = clock->now();
  if (!wait_for_end(step)) return queue.clear();
  record.end_wait.end = clock->now();
  note_times(step);
  account(record);
  if (observer) observer(record);
  queue.pop_front();
}

/// Notes when the work of a step that has ended ran. Nothing can move it any more.
void Trainer::State::note_times(QueuedStep& step) {
  ObservedStep& record = step.record;
  record.end = step.end.time();
  record.gpus.resize(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    GpuStep& gpu = record.gpus[i];
    MovedWork& moved = *ranks[i].moved;
    TimePoint last = accounts[i].accounted_until();
    if (step.gpus[i].copy) {
      gpu.copy = moved.take(*step.gpus[i].copy, nullptr);
      last = std::max(last, gpu.copy.end);
    }
    for (const std::vector<device::QueuedWork>& pieces : step.gpus[i].compute) {
      device::Interval part{.start = last, .end = last};
      for (const device::QueuedWork& piece : pieces) {
        const device::Interval time = moved.take(piece, &gpu.turns);
        if (&piece == &pieces.front()) part.start = time.start;
        part.end = last = time.end;
      }
      gpu.compute.push_back(part);
    }
  }
  for (const QueuedExchange& exchange : step.exchanges) {
    note_waits(exchange, record);
    record.exchanges.push_back({.start = exchange.start.time(), .end = exchange.end.time()});
    exchanged = record.exchanges.back().end;
  }
}

/// Counts for how long GPUs stand still before an exchange because the last one is late.
void Trainer::State::note_waits(const QueuedExchange& exchange, const ObservedStep& record) {
  const TimePoint start = exchange.start.time();
  if (start == exchanged || ranks.size() < 2) return;
  double waited_s = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const TimePoint ready = exchange.ready[i].time();
    if (ready == start) last = i;
    // Until it has computed what it has queued, it does not stand still.
    const TimePoint done =
        exchange.computed == 0 ? ready : record.gpus[i].compute[exchange.computed - 1].end;
    const TimePoint idle = std::min(std::max(done, exchanged), start);
    // The last device stands for all further GPUs.
    const std::size_t stands_for =
        i + 1 == ranks.size() ? static_cast<std::size_t>(plan.gpus) - i : 1;
    waited_s += to_seconds(start - idle) * static_cast<double>(stands_for);
  }
  result.waited_for[last] += from_seconds(waited_s / (plan.gpus - 1));
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
  if (count > 1 || plan.gpus > 1) {
    state->exchange_stream = devices.front()->create_stream(device::StreamKind::kNonBlocking);
    state->copies_stream = devices.front()->create_stream(device::StreamKind::kNonBlocking);
  }
  if (!devices.front()->node().faults().planned().empty()) state->faults.emplace(plan, devices);
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
