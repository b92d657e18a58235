// SPDX-License-Identifier: Apache-2.0
#include "slice_table.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace gpemu::device {
namespace {

using layout::SliceState;

/// The words of a state, in order: those of TimeSlices, then those of each sharer.
constexpr std::size_t kOwnWords = 8;
constexpr std::size_t kSharerWords = 122;
static_assert(std::size(SliceState{}.words) == kOwnWords + layout::kMostSharers * kSharerWords);
static_assert(kSharerWords == 10 + 3 * Sharer::kTurnsKept + 4 * Sharer::kMostDemands);

constexpr int kMostReads = 1000;

/// The values of a ProcessPriority.
constexpr std::int64_t kClasses = 3;

/// The values of a ComputeShare of one tenant: a part, with a cap or without.
constexpr std::int64_t kShares = 2 * (kWholeWidth + 1);

/// The lowest bits of the current version say which state counts.
constexpr std::uint64_t kStateBits = 8;
static_assert(2 * layout::kMostSharers <= 1 << kStateBits);

/// Reads words one after the other, each in a range.
class Reader {
 public:
  explicit Reader(const std::atomic<std::int64_t>* word) : word_(word) {}
  std::int64_t number(std::int64_t lowest, std::int64_t highest) {
    return std::clamp((word_++)->load(std::memory_order_relaxed), lowest, highest);
  }
  TimePoint time() { return at_ns(number(0, kLatest)); }
  /// No process wants more than it may queue.
  Duration duration() { return Duration(number(0, layout::kLongestQueue.count())); }
  std::uint64_t bits() {
    return static_cast<std::uint64_t>((word_++)->load(std::memory_order_relaxed));
  }
  Pace pace() {
    const std::uint64_t both = bits();
    const Pace pace{.work = static_cast<std::uint32_t>(both),
                    .time = static_cast<std::uint32_t>(both >> 32)};
    return pace.work == 0 || pace.work > pace.time ? Pace{} : pace;
  }
  KernelNeeds needs() {
    const std::uint64_t both = bits();
    return {.compute = std::min(static_cast<std::uint32_t>(both), kWholeWidth),
            .memory = std::min(static_cast<std::uint32_t>(both >> 32), kWholeWidth)};
  }

 private:
  /// Far from overflow: all that is added is at most a few of the longest queues.
  static constexpr std::int64_t kLatest = std::numeric_limits<std::int64_t>::max() / 4;
  const std::atomic<std::int64_t>* word_;
};

class Writer {
 public:
  explicit Writer(std::atomic<std::int64_t>* word) : word_(word) {}
  void number(std::int64_t value) { (word_++)->store(value, std::memory_order_relaxed); }
  void time(TimePoint value) { number(to_ns(value)); }
  void bits(std::uint64_t value) { number(static_cast<std::int64_t>(value)); }
  void pace(Pace value) { bits(std::uint64_t{value.time} << 32 | value.work); }
  void needs(KernelNeeds value) { bits(std::uint64_t{value.memory} << 32 | value.compute); }

 private:
  std::atomic<std::int64_t>* word_;
};

void read_sharer(Reader in, Sharer& sharer) {
  sharer.identity = in.bits();
  sharer.server = in.bits();
  sharer.width = static_cast<std::uint32_t>(in.number(1, kWholeWidth));
  const std::int64_t urgency = in.number(0, 2 * kClasses - 1);
  sharer.priority = static_cast<ProcessPriority>(urgency % kClasses +
                                                 static_cast<std::int64_t>(ProcessPriority::kHigh));
  sharer.is_held = urgency >= kClasses;
  const std::int64_t share = in.number(0, (kMostTenants + 1) * kShares - 1);
  sharer.share.tenant = static_cast<std::uint8_t>(share / kShares);
  sharer.share.part = static_cast<std::uint32_t>(share % kShares);
  sharer.share.capped = sharer.share.part > kWholeWidth;
  if (sharer.share.capped) sharer.share.part -= kWholeWidth + 1;
  sharer.period = in.number(0, std::numeric_limits<std::int64_t>::max());
  sharer.used = in.duration();
  sharer.served = Duration(in.number(0, std::numeric_limits<std::int64_t>::max()));
  sharer.turns = in.bits();
  sharer.demand_count = static_cast<std::size_t>(in.number(0, Sharer::kMostDemands));
  for (std::size_t i = 0; i < sharer.demand_count; ++i) {
    sharer.demands[i].earliest = in.time();
    sharer.demands[i].after = in.duration();
    sharer.demands[i].cost = in.duration();
    sharer.demands[i].needs = in.needs();
  }
  for (std::size_t i = sharer.demand_count; i < Sharer::kMostDemands; ++i) {
    for (int word = 0; word < 4; ++word) in.bits();
  }
  for (Turn& turn : sharer.last_turns) {
    turn.start = in.time();
    turn.end = std::max(turn.start, in.time());
    turn.pace = in.pace();
  }
}

void write_sharer(Writer out, const Sharer& sharer) {
  out.bits(sharer.identity);
  out.bits(sharer.server);
  out.number(sharer.width);
  out.number(static_cast<std::int64_t>(sharer.priority) -
             static_cast<std::int64_t>(ProcessPriority::kHigh) + (sharer.is_held ? kClasses : 0));
  out.number(sharer.share.part + (sharer.share.capped ? kWholeWidth + 1 : 0) +
             sharer.share.tenant * kShares);
  out.number(sharer.period);
  out.number(sharer.used.count());
  out.number(sharer.served.count());
  out.bits(sharer.turns);
  out.number(static_cast<std::int64_t>(sharer.demand_count));
  for (const Demand& demand : sharer.demands) {
    out.time(demand.earliest);
    out.number(demand.after.count());
    out.number(demand.cost.count());
    out.needs(demand.needs);
  }
  for (const Turn& turn : sharer.last_turns) {
    out.time(turn.start);
    out.time(turn.end);
    out.pace(turn.pace);
  }
}

void write_state(SliceState& state, const TimeSlices& slices) {
  Writer out(state.words);
  out.time(slices.time);
  out.number(static_cast<std::int64_t>(slices.sharers.size()));
  out.number(slices.last == TimeSlices::kNobody ? -1 : static_cast<std::int64_t>(slices.last));
  out.number(slices.last_is_gone ? 1 : 0);
  out.time(slices.switch_end);
  out.time(slices.slice_end);
  out.time(slices.looked_for_dead);
  out.number(slices.quantum.count());
  for (std::size_t i = 0; i < slices.sharers.size(); ++i) {
    write_sharer(Writer(state.words + kOwnWords + i * kSharerWords), slices.sharers[i]);
  }
}

}  // namespace

void SliceTable::read(const SliceState& state, TimeSlices& slices) {
  Reader in(state.words);
  slices.time = in.time();
  slices.sharers.resize(static_cast<std::size_t>(in.number(0, layout::kMostSharers)));
  const auto count = static_cast<std::int64_t>(slices.sharers.size());
  const std::int64_t last = in.number(-1, count - 1);
  slices.last = last < 0 ? TimeSlices::kNobody : static_cast<std::size_t>(last);
  slices.last_is_gone = in.number(0, 1) != 0;
  slices.switch_end = in.time();
  slices.slice_end = in.time();
  slices.looked_for_dead = in.time();
  slices.quantum = Duration(in.number(0, kLongestQuantum.count()));
  if (slices.quantum > Duration()) slices.quantum = std::max(slices.quantum, kShortestQuantum);
  for (std::size_t i = 0; i < slices.sharers.size(); ++i) {
    read_sharer(Reader(state.words + kOwnWords + i * kSharerWords), slices.sharers[i]);
  }
}

std::size_t SliceTable::state_of(std::uint64_t version) {
  return version % (1 << kStateBits) % (2 * layout::kMostSharers);
}

std::uint64_t SliceTable::read(const layout::SliceTable& table, TimeSlices& slices) {
  std::uint64_t version = table.current.load(std::memory_order_acquire);
  for (int attempt = 0;; ++attempt) {
    read(table.states[state_of(version)], slices);
    std::atomic_thread_fence(std::memory_order_acquire);
    const std::uint64_t after = table.current.load(std::memory_order_acquire);
    // Processes that only use a device never come near the limit.
    if (after == version || attempt > kMostReads) return version;
    version = after;
  }
}

std::optional<std::uint64_t> SliceTable::write(std::uint64_t version, const TimeSlices& slices) {
  if (!place_) return std::nullopt;
  // Neither state is written while it counts: of this process's two, one does not.
  std::size_t state = 2 * *place_;
  if (version % (1 << kStateBits) == state) ++state;
  std::atomic_thread_fence(std::memory_order_release);
  write_state(table_->states[state], slices);
  const std::uint64_t next = ((version >> kStateBits) + 1) << kStateBits | state;
  if (!table_->current.compare_exchange_strong(version, next)) return std::nullopt;
  return next;
}

bool SliceTable::take_place() {
  if (place_) return true;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < layout::kMostSharers; ++i) {
      std::uint64_t owner = table_->owners[i].load();
      if (owner != 0 && (round == 0 || is_alive_(owner))) continue;
      if (!table_->owners[i].compare_exchange_strong(owner, identity_)) continue;
      place_ = i;
      if (!allocate_ || allocate_(layout::offset_of_slices(2 * i), 2 * sizeof(SliceState))) {
        return true;
      }
      leave_place();
      return false;
    }
  }
  return false;
}

void SliceTable::leave_place() {
  if (!place_) return;
  std::uint64_t own = identity_;
  table_->owners[*std::exchange(place_, std::nullopt)].compare_exchange_strong(own, 0);
}

}  // namespace gpemu::device
