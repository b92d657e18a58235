// SPDX-License-Identifier: Apache-2.0
#include "engine_queue.hpp"

#include <algorithm>
#include <utility>

#include "gpemu/base/saturate.hpp"

namespace gpemu::device {

void EngineQueue::add_unstarted(Duration busy) {
  // A sum that was saturated falls below zero later.
  unstarted_ =
      Duration(std::max(saturating_add(unstarted_.count(), busy.count()), std::int64_t{0}));
}

void EngineQueue::reserve_for(TimePoint now, const Demand& demand) {
  if (moves()) return sharing_->want(now, demand);
  Duration own_time{};
  const TimePoint from = std::max(demand.earliest, settled_end_);
  for (const Turn& turn : turns_) {
    if (turn.end > from) own_time += turn.end - std::max(turn.start, from);
  }
  const Duration missing = std::min(demand.cost, unstarted_ - own_time);
  if (missing > Duration::zero()) reserve(now, demand.earliest, missing);
}

bool EngineQueue::is_alone(TimePoint now) const {
  return unstarted_ == Duration() || sharing_->is_last(engine_, now);
}

/// As serve(), by turns that are only expected.
Service EngineQueue::serve_moving(TimePoint now, TimePoint from, Duration cost) {
  Service interval{.start = from, .end = from, .busy = {}};
  std::size_t next = 0;
  bool has_asked = false;
  while (interval.busy < cost) {
    for (; next < turns_.size(); ++next) {
      const Turn& turn = turns_[next];
      const TimePoint start = std::max(turn.start, interval.end);
      if (turn.end <= start) continue;
      const Duration before = turn.done_by(start);
      const Duration done = std::min(turn.done_by(turn.end) - before, cost - interval.busy);
      if (done == Duration()) continue;
      if (interval.busy == Duration()) interval.start = start;
      interval.busy += done;
      interval.end = turn.end;
      if (interval.busy < cost) continue;
      interval.end = turn.when_done(before + done);
      return interval;
    }
    const TimePoint known = turns_.empty() ? from : std::max(from, turns_.back().end);
    sharing_->expect(known, turns_);
    if (!turns_.empty() && turns_.back().end > known) {
      // The last turn may have become longer.
      next = 0;
      while (turns_[next].end <= interval.end) ++next;
    } else if (!has_asked) {
      has_asked = true;
      // If the process wants more before, then without a pause: when that ends is only expected.
      const bool follows = !turns_.empty() && turns_.back().end > now;
      sharing_->want(now, {.earliest = follows ? now : std::max(now, interval.end),
                           .after = {},
                           .cost = cost - interval.busy});
    } else {
      // Only with damage: no process gets the engine.
      interval.end = saturating_add(std::max(known, interval.end), cost - interval.busy);
      interval.busy = cost;
    }
  }
  return interval;
}

/// As serve(), by turns that may have been reserved before.
Service EngineQueue::serve_by_turns(TimePoint now, TimePoint from, Duration cost) {
  if (moves()) return serve_moving(now, from, cost);
  Service interval{.start = from, .end = from, .busy = {}};
  for (const Turn& turn : turns_) {
    if (turn.end <= interval.end) continue;
    use({.start = turn.start, .end = turn.end}, cost, interval);
    if (interval.busy == cost) return interval;
  }
  use(reserve(now, interval.end, cost - interval.busy), cost, interval);
  return interval;
}

TimePoint EngineQueue::next_turn(TimePoint now, TimePoint from) {
  for (const Turn& turn : turns_) {
    if (from < turn.end) return std::max(from, turn.start);
  }
  if (moves()) {
    sharing_->expect(from, turns_);
    for (const Turn& turn : turns_) {
      if (from < turn.end) return std::max(from, turn.start);
    }
  }
  return sharing_->next_start(engine_, now, from);
}

void EngineQueue::fill_gaps(TimePoint now, TimePoint start, TimePoint end, Duration busy) {
  std::int64_t left = busy.count();
  for (layout::GapRecord& gap : record_->gaps) {
    const std::int64_t gap_start = std::max(gap.start_ns.load(), to_ns(now));
    const std::int64_t gap_end = gap.end_ns;
    if (at_ns(gap_start) >= end || at_ns(gap_end) <= start) continue;
    // Both are in the future, so the difference is in range.
    const std::int64_t part = gap_end > gap_start ? std::min(gap_end - gap_start, left) : 0;
    gap.start_ns = gap_start + part;
    left -= part;
  }
}

}  // namespace gpemu::device
