// SPDX-License-Identifier: Apache-2.0
#include "time_slices.hpp"

#include "gpemu/base/saturate.hpp"

namespace gpemu::device {
namespace {

/// Returns the first time, not before `time`, at which a slice that ends at `slice_end`, or one
/// that follows it directly, ends.
TimePoint boundary_from(TimePoint slice_end, TimePoint time, Duration quantum) {
  if (time <= slice_end) return slice_end;
  const std::int64_t slices = (time - slice_end + quantum - Duration(1)) / quantum;
  std::int64_t length = 0;
  if (__builtin_mul_overflow(slices, quantum.count(), &length)) return TimePoint::max();
  return saturating_add(slice_end, Duration(length));
}

}  // namespace

Duration Sharer::wanted() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < demand_count; ++i) sum = saturating_add(sum, demands[i].cost.count());
  return Duration(sum);
}

std::size_t TimeSlices::find(std::uint64_t identity) const {
  const auto found = std::ranges::find(sharers, identity, &Sharer::identity);
  return found == sharers.end() ? kNobody : static_cast<std::size_t>(found - sharers.begin());
}

void TimeSlices::remove(std::size_t sharer) {
  sharers.erase(sharers.begin() + static_cast<std::ptrdiff_t>(sharer));
  if (last == kNobody || sharer > last) return;
  if (sharer == last) last_is_gone = true;
  // Before the first in the ring comes the last.
  if (last > 0) {
    --last;
  } else {
    last = sharers.empty() ? kNobody : sharers.size() - 1;
  }
}

std::size_t TimeSlices::next_in_ring() const {
  const std::size_t count = sharers.size();
  const std::size_t first = last == kNobody ? 0 : last + 1;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t candidate = (first + i) % count;
    if (sharers[candidate].wants_at(time)) return candidate;
  }
  return kNobody;
}

TimePoint TimeSlices::rival_from() const {
  TimePoint from = TimePoint::max();
  for (std::size_t i = 0; i < sharers.size(); ++i) {
    if (i != last) from = std::min(from, sharers[i].wants_from());
  }
  return from;
}

void TimeSlices::give_to(std::size_t sharer, const TimeSliceRules& rules) {
  const bool is_switch = last != kNobody && (sharer != last || last_is_gone);
  last = sharer;
  last_is_gone = false;
  switch_end = is_switch ? saturating_add(time, rules.context_switch) : time;
  slice_end = saturating_add(switch_end, length(rules));
}

void TimeSlices::advance(TimePoint until, const TimeSliceRules& rules) {
  for (int steps = 0; time < until; ++steps) {
    step(until, rules);
    if (steps < kMostSteps) continue;
    time = until;
    return;
  }
}

void TimeSlices::step(TimePoint until, const TimeSliceRules& rules) {
  if (last != kNobody && has_turn(last)) {
    if (time < slice_end || rival_from() > time) return serve(until, rules);
    return give_to(next_in_ring(), rules);
  }
  const std::size_t next = next_in_ring();
  if (next != kNobody) return give_to(next, rules);
  TimePoint first = until;
  for (const Sharer& sharer : sharers) first = std::min(first, sharer.wants_from());
  time = first;
}

/// Lets the last process work, until a time at most, until its slice ends while another wants the
/// engine, or until its demand is met.
void TimeSlices::serve(TimePoint until, const TimeSliceRules& rules) {
  Sharer& sharer = sharers[last];
  Demand& demand = sharer.demands[0];
  const TimePoint from = std::max(time, switch_end);
  const TimePoint rival = rival_from();
  TimePoint end = std::min(until, saturating_add(from, demand.cost));
  if (rival != TimePoint::max()) {
    end = std::min(end, boundary_from(slice_end, std::max(rival, from), length(rules)));
  }
  if (end > from) {
    demand.cost -= end - from;
    sharer.served += end - from;
    Turn& turn = sharer.last_turns[(sharer.turns - 1) % Sharer::kTurnsKept];
    if (sharer.turns > 0 && turn.end == from) {
      turn.end = end;
    } else {
      sharer.last_turns[sharer.turns++ % Sharer::kTurnsKept] = {.start = from, .end = end};
    }
  }
  time = std::max(end, time);
  slice_end = boundary_from(slice_end, time, length(rules));
  if (demand.cost > Duration()) return;
  std::shift_left(sharer.demands.begin(),
                  sharer.demands.begin() + static_cast<std::ptrdiff_t>(sharer.demand_count), 1);
  if (--sharer.demand_count == 0) return;
  Demand& next = sharer.demands[0];
  next.earliest = std::max(next.earliest, saturating_add(time, next.after));
}

void TimeSlices::advance_past(std::size_t sharer, TimePoint end, const TimeSliceRules& rules) {
  const Sharer& one = sharers[sharer];
  for (int steps = 0; steps < kMostSteps && one.demand_count > 0; ++steps) {
    const bool has_passed =
        one.turns > 0 && one.last_turns[(one.turns - 1) % Sharer::kTurnsKept].end > end;
    // Its turn ends when another process has the engine.
    if (has_passed && last != sharer) return;
    step(TimePoint::max(), rules);
  }
}

TimePoint TimeSlices::next_turn(std::size_t sharer, const TimeSliceRules& rules) const {
  TimeSlices ahead = *this;
  for (int steps = 0; steps < kMostSteps && ahead.sharers[sharer].demand_count > 0; ++steps) {
    if (ahead.has_turn(sharer)) return std::max(ahead.time, ahead.switch_end);
    ahead.step(TimePoint::max(), rules);
  }
  return TimePoint::max();
}

Duration slice_length(Duration quantum, TimeSliceLength length) {
  switch (length) {
    case TimeSliceLength::kShort:
      quantum /= 2;
      break;
    case TimeSliceLength::kMedium:
      quantum *= 2;
      break;
    case TimeSliceLength::kLong:
      quantum *= 4;
      break;
    case TimeSliceLength::kDefault:
      break;
  }
  return std::clamp(quantum, kShortestQuantum, kLongestQuantum);
}

}  // namespace gpemu::device
