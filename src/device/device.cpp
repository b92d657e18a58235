// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/device.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "gpemu/base/saturate.hpp"

#include "segment.hpp"

namespace gpemu::device {
namespace {

/// The idle time of an engine that this process left in front of its own work, which had to wait
/// for something. Nobody but this process knows it, for the engine's tail lies behind it: later
/// work of other streams runs there, so that it is not held up by work that waits.
class IdleTime {
 public:
  /// Requires: `end` is behind the ends of all stretches added before.
  void add(TimePoint start, TimePoint end) {
    if (start >= end) return;
    if (stretches_.size() == kMostStretches) stretches_.pop_front();
    stretches_.push_back({start, end});
  }

  /// Takes up to `cost` of the time from `earliest` on. Returns from when to when, with what was
  /// taken as `busy`.
  Interval take(TimePoint now, TimePoint earliest, Duration cost) {
    while (!stretches_.empty() && stretches_.front().end <= now) stretches_.pop_front();
    Interval taken{.start = earliest, .end = earliest, .busy = Duration::zero()};
    for (std::size_t i = 0; i < stretches_.size() && taken.busy < cost;) {
      const Stretch stretch = stretches_[i];
      const TimePoint start = std::max(stretch.start, earliest);
      const TimePoint end = std::min(stretch.end, saturating_add(start, cost - taken.busy));
      if (start >= end) {
        ++i;
        continue;
      }
      if (taken.busy == Duration::zero()) taken.start = start;
      taken.end = end;
      taken.busy += end - start;
      i = replace(i, {stretch.start, start}, {end, stretch.end});
    }
    return taken;
  }

 private:
  struct Stretch {
    TimePoint start;
    TimePoint end;
  };

  /// More than any program has pending; the first are forgotten.
  static constexpr std::size_t kMostStretches = 1024;

  /// Puts what is left of a stretch in its place and returns the index behind that.
  std::size_t replace(std::size_t index, Stretch before, Stretch after) {
    const auto place = stretches_.begin() + static_cast<std::ptrdiff_t>(index);
    const bool keep_before = before.start < before.end;
    const bool keep_after = after.start < after.end;
    if (keep_before) *place = before;
    if (keep_after && keep_before) {
      stretches_.insert(place + 1, after);
    } else if (keep_after) {
      *place = after;
    } else if (!keep_before) {
      stretches_.erase(place);
    }
    return index + (keep_before ? 1 : 0) + (keep_after ? 1 : 0);
  }

  std::deque<Stretch> stretches_;  ///< in order of time.
};

/// Takes the part of the gaps that work now fills, as if at their beginnings.
void fill_gaps(layout::EngineRecord& engine, TimePoint now, const Interval& filled) {
  std::int64_t left = filled.busy.count();
  for (layout::GapRecord& gap : engine.gaps) {
    const std::int64_t start = std::max(gap.start_ns.load(), now.time_since_epoch().count());
    const std::int64_t end = gap.end_ns;
    if (TimePoint(Duration(start)) >= filled.end || TimePoint(Duration(end)) <= filled.start) {
      continue;
    }
    // Both are in the future, so the difference is in range.
    const std::int64_t part = end > start ? std::min(end - start, left) : 0;
    gap.start_ns = start + part;
    left -= part;
  }
}

/// Where this process's work on an engine ends.
struct OwnTail {
  std::int64_t& ns;
  std::atomic<std::int64_t>& published;  ///< what others see of it.
};

/// Puts work at the end of an engine's timeline, not before `earliest`. Several processes may do so
/// at once: whoever's exchange succeeds first comes first, and nobody waits for anybody. A tail
/// that is further away than anybody queues is damage, and the work comes after this process's own
/// instead. Requires: Segment::OwnUse::mutex.
Interval append_to(layout::EngineRecord& engine, OwnTail own, TimePoint now, TimePoint earliest,
                   Duration cost, IdleTime& idle) {
  std::int64_t tail = engine.tail_ns.load(std::memory_order_relaxed);
  const std::int64_t now_ns = now.time_since_epoch().count();
  const std::int64_t latest =
      saturating_add(std::max(now_ns, own.ns), layout::kLongestQueue.count());
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t queued = 0;
  do {
    queued = tail <= latest ? tail : own.ns;
    start = std::max(earliest.time_since_epoch().count(), queued);
    end = saturating_add(start, cost.count());
    // Before the exchange, so that nobody cuts the timeline before this work's end.
    own.published.store(std::max(own.ns, end), std::memory_order_relaxed);
  } while (!engine.tail_ns.compare_exchange_weak(tail, end));
  own.ns = std::max(own.ns, end);
  idle.add(TimePoint(Duration(queued)), TimePoint(Duration(start)));
  if (start > std::max(queued, now_ns)) {
    layout::GapRecord& gap = engine.gaps[engine.gap_count++ % std::size(engine.gaps)];
    gap.start_ns = std::max(queued, now_ns);
    gap.end_ns = start;
  }
  return {.start = TimePoint(Duration(start)),
          .end = TimePoint(Duration(end)),
          .busy = Duration(end - start)};
}

}  // namespace

/// Work of others that is queued longer than this makes a process look whether those others live,
/// at most this often: a look asks the kernel for a lock of each process, some 0.3 us.
constexpr Duration kBacklogToLookInto = std::chrono::milliseconds(10);
constexpr Duration kLookPeriod = std::chrono::milliseconds(1);

struct Device::State {
  std::shared_ptr<Node> node;
  Segment* segment;
  int index;
  sim::Clock* clock;
  std::span<layout::EngineRecord> engines;
  layout::HoldingRecord* holding;
  /// Of this process and device, however often it is open.
  Segment::OwnUse* own;

  // Guarded by own->mutex: the ends of the work of the legacy default stream, of all streams that
  // synchronise with it, and of all streams.
  TimePoint default_tail{};
  TimePoint blocking_tail{};
  TimePoint any_tail{};
  std::array<IdleTime, kEngineCount> idle;
  std::unordered_map<DeviceAddress, Bytes> allocations;
  DeviceAddress next_address;
  std::unique_ptr<Stream> default_stream;

  TimePoint looked_for_dead{};

  /// Has the work of processes that died dropped from an engine before this process queues behind
  /// it, and damage undone that would make it wait for work that nobody has queued.
  void drop_work_of_dead(std::size_t engine, TimePoint now) {
    const TimePoint others_end{Duration(engines[engine].tail_ns.load())};
    const TimePoint own_end{Duration(own->tail_ns[engine])};
    const TimePoint expected = std::max(now, own_end);
    if (others_end < saturating_add(expected, kBacklogToLookInto)) return;
    const bool is_damage = others_end > saturating_add(expected, layout::kLongestQueue);
    if (now - looked_for_dead < kLookPeriod && !is_damage) return;
    looked_for_dead = now;
    segment->trim(index, engine);
  }
};

// ---- Device

Device::Device(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->default_stream.reset(new Stream(*this, Stream::Role::kLegacyDefault));
}

Result<std::unique_ptr<Device>> Device::open(std::shared_ptr<Node> node, int index,
                                             sim::Clock& clock) {
  if (index < 0 || index >= node->device_count()) {
    return fail(ErrorCode::kNotFound, "node '{}' has no device {}: its devices are 0 to {}",
                node->name(), index, node->device_count() - 1);
  }
  Segment& segment = *node->segment_;
  GPEMU_TRY(segment.add_context(index));
  auto state = std::make_unique<State>();
  state->node = std::move(node);
  state->segment = &segment;
  state->index = index;
  state->clock = &clock;
  state->engines = segment.engines(index);
  state->holding = &segment.own_holding(index);
  state->own = &segment.own(index);
  // Far from each other and from zero, so that an address tells its device.
  state->next_address = (static_cast<DeviceAddress>(index) + 1) << 44;
  return std::unique_ptr<Device>(new Device(std::move(state)));
}

Device::~Device() {
  // All of it belongs to the parent of a forked child.
  if (!state_->segment->owned_by_this_process()) return;
  Bytes held = 0;
  for (const auto& [address, bytes] : state_->allocations) held += bytes;
  if (held > 0) state_->segment->give_back_memory(state_->index, held);
  state_->segment->remove_context(state_->index);
}

int Device::index() const {
  return state_->index;
}
sim::Clock& Device::clock() const {
  return *state_->clock;
}
Node& Device::node() const {
  return *state_->node;
}
Result<void> Device::check_owner() const {
  return state_->segment->check_owner();
}
Stream& Device::default_stream() {
  return *state_->default_stream;
}

std::unique_ptr<Stream> Device::create_stream(StreamKind kind) {
  const Stream::Role role =
      kind == StreamKind::kBlocking ? Stream::Role::kBlocking : Stream::Role::kNonBlocking;
  return std::unique_ptr<Stream>(new Stream(*this, role));
}

Result<DeviceAddress> Device::allocate(Bytes bytes) {
  if (bytes == 0) return fail(ErrorCode::kInvalidArgument, "cannot allocate 0 bytes");
  GPEMU_TRY(state_->segment->check_owner());
  Segment& segment = *state_->segment;
  const Bytes total = segment.facts(state_->index).memory_bytes;
  const Bytes rounded = bytes > total ? bytes
                                      : (bytes + kAllocationGranularity - 1) /
                                            kAllocationGranularity * kAllocationGranularity;
  if (!segment.take_memory(state_->index, rounded)) {
    const MemoryInfo info = memory_info();
    const std::string others = segment.largest_holders(state_->index);
    return fail(ErrorCode::kOutOfMemory,
                "out of memory on device {} ({}): {:.1f} MiB asked for, {:.1f} MiB free of {:.1f} "
                "MiB; this process holds {:.1f} MiB, others {:.1f} MiB{}{}",
                state_->index, segment.facts(state_->index).gpu, to_mib(rounded), to_mib(info.free),
                to_mib(info.total), to_mib(info.held), to_mib(info.total - info.free - info.held),
                others.empty() ? "" : ": ", others);
  }
  const std::lock_guard lock(state_->own->mutex);
  const DeviceAddress address = state_->next_address;
  state_->next_address += rounded;
  state_->allocations.emplace(address, rounded);
  return address;
}

Result<void> Device::free(DeviceAddress address) {
  GPEMU_TRY(state_->segment->check_owner());
  Bytes bytes = 0;
  {
    const std::lock_guard lock(state_->own->mutex);
    const auto found = state_->allocations.find(address);
    if (found == state_->allocations.end()) {
      return fail(ErrorCode::kInvalidArgument,
                  "{:#x} is not the start of an allocation on device {}", address, state_->index);
    }
    bytes = found->second;
    state_->allocations.erase(found);
  }
  state_->segment->give_back_memory(state_->index, bytes);
  return {};
}

MemoryInfo Device::memory_info() const {
  const Bytes total = state_->segment->facts(state_->index).memory_bytes;
  const Bytes used = state_->segment->memory_used(state_->index);
  const std::lock_guard lock(state_->own->mutex);
  return {.total = total, .free = total - used, .held = std::min(state_->own->memory, used)};
}

void Device::synchronize() {
  TimePoint tail;
  {
    const std::lock_guard lock(state_->own->mutex);
    tail = state_->any_tail;
  }
  state_->clock->wait_until(tail);
}

// ---- Stream

TimePoint Stream::ready_time() const {
  const Device::State& device = *device_.state_;
  switch (role_) {
    case Role::kLegacyDefault:
      return std::max(tail_, device.blocking_tail);
    case Role::kBlocking:
      return std::max(tail_, device.default_tail);
    case Role::kNonBlocking:
      return tail_;
  }
  GPEMU_CHECK(false, "unknown stream role");
}

void Stream::raise_tail(TimePoint end) {
  Device::State& device = *device_.state_;
  tail_ = std::max(tail_, end);
  device.any_tail = std::max(device.any_tail, tail_);
  if (role_ != Role::kNonBlocking) device.blocking_tail = std::max(device.blocking_tail, tail_);
  if (role_ == Role::kLegacyDefault) device.default_tail = tail_;
}

Interval Stream::append(TimePoint earliest, Engine engine, Bytes bytes, Duration cost) {
  Device::State& device = *device_.state_;
  const auto engine_index = static_cast<std::size_t>(engine);
  layout::EngineRecord& record = device.engines[engine_index];
  auto& own = *device.own;
  const TimePoint now = device.clock->now();
  device.drop_work_of_dead(engine_index, now);
  earliest = std::max(now, earliest);
  IdleTime& idle = device.idle[engine_index];
  Interval interval = idle.take(now, earliest, cost);
  if (interval.busy > Duration::zero()) fill_gaps(record, now, interval);
  if (interval.busy < cost || cost == Duration::zero()) {
    const Interval rest =
        append_to(record, {own.tail_ns[engine_index], device.holding->engine_tail_ns[engine_index]},
                  now, earliest, cost - interval.busy, idle);
    if (interval.busy == Duration::zero()) interval.start = rest.start;
    interval.end = rest.end;
    interval.busy += rest.busy;
  }
  interval.asked = now;
  raise_tail(interval.end);
  record.busy_ns.fetch_add(interval.busy.count(), std::memory_order_relaxed);
  own.busy_ns[engine_index] = saturating_add(own.busy_ns[engine_index], interval.busy.count());
  device.holding->engine_busy_ns[engine_index].store(own.busy_ns[engine_index],
                                                     std::memory_order_relaxed);
  record.operations.fetch_add(1, std::memory_order_relaxed);
  if (bytes > 0) record.bytes.fetch_add(bytes, std::memory_order_relaxed);
  return interval;
}

Interval Stream::enqueue(Engine engine, Bytes bytes, Duration cost) {
  const std::lock_guard lock(device_.state_->own->mutex);
  return append(ready_time(), engine, bytes, cost);
}

Interval Stream::enqueue_from(TimePoint earliest, Engine engine, Bytes bytes, Duration cost) {
  const std::lock_guard lock(device_.state_->own->mutex);
  return append(earliest, engine, bytes, cost);
}

Interval Stream::launch(Duration cost) {
  return enqueue(Engine::kCompute, 0, cost);
}

Interval Stream::copy(Engine engine, Bytes bytes, Duration cost) {
  GPEMU_CHECK(engine != Engine::kCompute, "a copy needs a copy engine");
  return enqueue(engine, bytes, cost);
}

void Stream::record(Event& event) {
  const std::lock_guard lock(device_.state_->own->mutex);
  event.time_ = std::max(device_.state_->clock->now(), ready_time());
  event.recorded_ = true;
}

void Stream::wait(const Event& event) {
  if (!event.recorded_) return;
  const std::lock_guard lock(device_.state_->own->mutex);
  // Who waits for this stream waits for the event as well.
  raise_tail(event.time_);
}

TimePoint Stream::tail() const {
  const std::lock_guard lock(device_.state_->own->mutex);
  return ready_time();
}

bool Stream::idle() const {
  return tail() <= device_.state_->clock->now();
}

void Stream::synchronize() {
  device_.state_->clock->wait_until(tail());
}

Result<Duration> elapsed_time(const Event& start, const Event& end, const sim::Clock& clock) {
  if (!start.recorded() || !end.recorded()) {
    return fail(ErrorCode::kInvalidArgument, "the {} event was never recorded",
                start.recorded() ? "end" : "start");
  }
  if (std::max(start.time(), end.time()) > clock.now()) {
    return fail(ErrorCode::kNotReady, "the events have not both happened yet");
  }
  return end.time() - start.time();
}

}  // namespace gpemu::device
