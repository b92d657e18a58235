// SPDX-License-Identifier: Apache-2.0
#include "engine_queue.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gpemu/base/saturate.hpp"

#include "segment.hpp"

namespace gpemu::device {
namespace {

/// If the work of other processes is queued for longer than this, a process checks whether they
/// live, at most once per period. A check asks the kernel for a lock of each process, about 0.3 us.
constexpr Duration kBacklogToLookInto = std::chrono::milliseconds(10);
constexpr Duration kLookPeriod = std::chrono::milliseconds(1);

std::int64_t ns(TimePoint time) {
  return time.time_since_epoch().count();
}
TimePoint at(std::int64_t ns) {
  return TimePoint(Duration(ns));
}

}  // namespace

EngineQueue::EngineQueue(layout::EngineRecord& engine, layout::HoldingRecord::Use& own, Trim trim)
    : record_(&engine), holding_(&own), trim_(std::move(trim)) {}

EngineQueue::EngineQueue(Segment& segment, int device, std::size_t engine)
    : EngineQueue(segment.engines(device)[engine], segment.own_holding(device).engines[engine],
                  [&segment, device, engine](TimePoint now, std::int64_t own_tail_ns) {
                    segment.trim(device, engine, now, own_tail_ns);
                  }) {}

void EngineQueue::count(Duration busy, Bytes bytes) {
  layout::CountRecord& queued = holding_->queued;
  busy_ns_ = saturating_add(busy_ns_, busy.count());
  queued.busy_ns.store(busy_ns_, std::memory_order_relaxed);
  queued.operations.store(++operations_, std::memory_order_relaxed);
  bytes_ += bytes;
  queued.bytes.store(bytes_, std::memory_order_relaxed);
}

void EngineQueue::promise(Duration busy) {
  promised_ = Duration(std::max(saturating_add(promised_.count(), busy.count()), std::int64_t{0}));
}

void EngineQueue::reserve_for(TimePoint now, TimePoint earliest, Duration cost) {
  Duration own_time{};
  const TimePoint from = std::max(earliest, settled_end_);
  for (const Turn& turn : turns_) {
    if (turn.end > from) own_time += turn.end - std::max(turn.start, from);
  }
  const Duration missing = std::min(cost, promised_ - own_time);
  if (missing > Duration::zero()) reserve(now, earliest, missing);
}

Interval EngineQueue::serve(TimePoint now, TimePoint from, Duration cost) {
  Interval interval{.start = from, .end = from, .busy = {}};
  const auto use = [&](const Turn& turn) {
    const TimePoint start = std::max(turn.start, interval.end);
    const TimePoint end = std::min(turn.end, saturating_add(start, cost - interval.busy));
    if (start > end) return;
    if (interval.busy == Duration::zero()) interval.start = start;
    interval.end = end;
    interval.busy += end - start;
  };
  if (turns_.empty() || from >= turns_.back().end) {
    use(reserve(now, from, cost));
    return interval;
  }
  for (const Turn& turn : turns_) {
    if (turn.end <= interval.end) continue;
    use(turn);
    if (interval.busy == cost) return interval;
  }
  use(reserve(now, interval.end, cost - interval.busy));
  return interval;
}

TimePoint EngineQueue::next_turn(TimePoint now, TimePoint from) {
  for (const Turn& turn : turns_) {
    if (from < turn.end) return std::max(from, turn.start);
  }
  drop_work_of_dead(now);
  const TimePoint tail = at(record_->tail_ns.load(std::memory_order_relaxed));
  return tail > saturating_add(std::max(now, from), layout::kLongestQueue) ? from
                                                                           : std::max(from, tail);
}

void EngineQueue::settle(TimePoint start, TimePoint end) {
  settled_end_ = std::max(settled_end_, end);
  while (turns_.size() > 1 && turns_.front().end <= start) turns_.erase(turns_.begin());
}

void EngineQueue::fill_gaps(TimePoint now, TimePoint start, TimePoint end, Duration busy) {
  std::int64_t left = busy.count();
  for (layout::GapRecord& gap : record_->gaps) {
    const std::int64_t gap_start = std::max(gap.start_ns.load(), ns(now));
    const std::int64_t gap_end = gap.end_ns;
    if (at(gap_start) >= end || at(gap_end) <= start) continue;
    // Both are in the future, so the difference is in range.
    const std::int64_t part = gap_end > gap_start ? std::min(gap_end - gap_start, left) : 0;
    gap.start_ns = gap_start + part;
    left -= part;
  }
}

/// Before this process queues after it, drops the work of dead processes, and repairs damage that
/// would make this process wait for work that nobody has queued.
void EngineQueue::drop_work_of_dead(TimePoint now) {
  const TimePoint others_end = at(record_->tail_ns.load());
  const TimePoint expected = std::max(now, at(tail_ns_));
  if (others_end < saturating_add(expected, kBacklogToLookInto)) return;
  const bool is_damage = others_end > saturating_add(expected, layout::kLongestQueue);
  if (now - looked_for_dead_ < kLookPeriod && !is_damage) return;
  looked_for_dead_ = now;
  trim_(now, tail_ns_);
}

/// Puts time at the end of the engine's timeline, not before `earliest`. Several processes may do
/// so at once: the one whose exchange succeeds first comes first, and none waits for another. A
/// tail that is further away than any process queues is damage; the time then comes after this
/// process's own tail instead.
EngineQueue::Turn EngineQueue::reserve(TimePoint now, TimePoint earliest, Duration cost) {
  drop_work_of_dead(now);
  std::int64_t tail = record_->tail_ns.load(std::memory_order_relaxed);
  const std::int64_t latest =
      saturating_add(std::max(ns(now), tail_ns_), layout::kLongestQueue.count());
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t queued = 0;
  do {
    queued = tail <= latest ? tail : tail_ns_;
    start = std::max(ns(earliest), queued);
    end = saturating_add(start, cost.count());
    // Before the exchange, so that no process cuts the timeline before this work's end.
    holding_->tail_ns.store(std::max(tail_ns_, end), std::memory_order_relaxed);
  } while (!record_->tail_ns.compare_exchange_weak(tail, end));
  tail_ns_ = std::max(tail_ns_, end);
  if (start > std::max(queued, ns(now))) {
    layout::GapRecord& gap = record_->gaps[record_->gap_count++ % std::size(record_->gaps)];
    gap.start_ns = std::max(queued, ns(now));
    gap.end_ns = start;
  }
  const Turn turn{.start = at(queued), .end = at(end)};
  if (!turns_.empty() && turns_.back().end == turn.start) {
    turns_.back().end = turn.end;
  } else {
    turns_.push_back(turn);
  }
  return turn;
}

}  // namespace gpemu::device
