// SPDX-License-Identifier: Apache-2.0
#include "time_slices.hpp"

#include <numeric>

#include "gpemu/base/saturate.hpp"

#include "layout.hpp"

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

std::int64_t period_of(TimePoint time, const TimeSliceRules& rules) {
  return to_ns(time) / rules.period.count();
}

/// Returns when the period after a time's begins.
TimePoint next_period(TimePoint time, const TimeSliceRules& rules) {
  std::int64_t begin = 0;
  if (__builtin_mul_overflow(period_of(time, rules) + 1, rules.period.count(), &begin)) {
    return TimePoint::max();
  }
  return at_ns(begin);
}

}  // namespace

Duration Sharer::share_left(TimePoint time, const TimeSliceRules& rules) const {
  if (share.part == 0) return {};
  const Duration whole = rules.period * share.part / kWholeWidth;
  const Duration gone = period == period_of(time, rules) ? used : Duration();
  return std::max(whole - gone, Duration());
}

TimePoint Sharer::wants_from(TimePoint now, const TimeSliceRules& rules) const {
  if (demand_count == 0) return TimePoint::max();
  const TimePoint earliest = demands[0].earliest;
  if (!share.capped) return earliest;
  const TimePoint from = std::max(earliest, now);
  return share_left(from, rules) > Duration() ? earliest : next_period(from, rules);
}

Duration Sharer::wanted() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < demand_count; ++i) sum = saturating_add(sum, demands[i].cost.count());
  return Duration(sum);
}

TimePoint Sharer::end_of_demand(TimePoint now, Pace pace) const {
  const Turn turn = turn_from(now, pace);
  return std::max(
      now,
      turn.when_done(Duration(saturating_add(turn.done_by(now).count(), demands[0].cost.count()))));
}

void Sharer::charge(TimePoint from, TimePoint end, const TimeSliceRules& rules) {
  if (end <= from || share.part == 0) return;
  if (const std::int64_t now = period_of(from, rules); period != now) {
    period = now;
    used = {};
  }
  used += end - from;
}

void Sharer::work(TimePoint from, TimePoint end, Pace pace) {
  Demand& demand = demands[0];
  if (end > from) {
    Turn turn = turn_from(from, pace);
    const Duration done = turn.done_by(end) - turn.done_by(from);
    demand.cost -= done;
    served += done;
    if (turn.start == from) ++turns;
    turn.end = end;
    last_turns[(turns - 1) % kTurnsKept] = turn;
  }
  if (demand.cost > Duration()) return;
  std::shift_left(demands.begin(), demands.begin() + static_cast<std::ptrdiff_t>(demand_count), 1);
  if (--demand_count == 0) return;
  Demand& next = demands[0];
  next.earliest = std::max(next.earliest, saturating_add(end, next.after));
}

Turn Sharer::turn_from(TimePoint from, Pace pace) const {
  if (turns > 0) {
    const Turn& last = last_turns[(turns - 1) % kTurnsKept];
    if (last.end == from && last.pace == pace) return last;
  }
  return {.start = from, .end = from, .pace = pace};
}

std::size_t TimeSlices::find(std::uint64_t identity) const {
  const auto found = std::ranges::find(sharers, identity, &Sharer::identity);
  return found == sharers.end() ? kNobody : static_cast<std::size_t>(found - sharers.begin());
}

std::size_t TimeSlices::first_of_party(std::size_t sharer) const {
  if (sharers[sharer].server == 0) return sharer;
  const auto first = std::ranges::find(sharers, sharers[sharer].server, &Sharer::server);
  return static_cast<std::size_t>(first - sharers.begin());
}

bool TimeSlices::has_shares() const {
  return std::ranges::any_of(sharers, [](const Sharer& one) { return one.share.part > 0; });
}

std::optional<int> TimeSlices::urgency(std::size_t sharer, const TimeSliceRules& rules) const {
  std::optional<int> most_urgent;
  const auto look_at = [&](const Sharer& one) {
    if (!one.wants_at(time, rules)) return;
    const int its = one.rank(time, rules);
    most_urgent = most_urgent ? std::min(*most_urgent, its) : its;
  };
  if (sharers[sharer].server == 0) {
    look_at(sharers[sharer]);
    return most_urgent;
  }
  for (const Sharer& other : sharers) {
    if (other.server == sharers[sharer].server) look_at(other);
  }
  return most_urgent;
}

std::size_t TimeSlices::parties() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < sharers.size(); ++i) count += first_of_party(i) == i ? 1 : 0;
  return count;
}

Sharer& TimeSlices::add(std::uint64_t identity, const ComputeShare& share) {
  Sharer added;
  added.identity = identity;
  added.share = share;
  for (const Sharer& other : sharers) {
    if (share.tenant == 0 || other.share.tenant != share.tenant) continue;
    added.period = other.period;
    added.used = other.used;
  }
  return sharers.emplace_back(added);
}

void TimeSlices::remove(std::size_t sharer) {
  const std::uint64_t server = sharers[sharer].server;
  sharers.erase(sharers.begin() + static_cast<std::ptrdiff_t>(sharer));
  if (last == kNobody || sharer > last) return;
  if (sharer == last && server != 0) {
    const auto other = std::ranges::find(sharers, server, &Sharer::server);
    if (other != sharers.end()) {
      last = static_cast<std::size_t>(other - sharers.begin());
      return;
    }
  }
  if (sharer == last) last_is_gone = true;
  // Before the first in the ring comes the last.
  if (last > 0) {
    --last;
  } else {
    last = sharers.empty() ? kNobody : sharers.size() - 1;
  }
}

std::size_t TimeSlices::next_in_ring(const TimeSliceRules& rules) const {
  const std::size_t count = sharers.size();
  const std::size_t first = last == kNobody ? 0 : last + 1;
  std::size_t next = kNobody;
  int most_urgent = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t candidate = (first + i) % count;
    if (first_of_party(candidate) != candidate) continue;
    const auto its = urgency(candidate, rules);
    if (!its || (next != kNobody && *its >= most_urgent)) continue;
    next = candidate;
    most_urgent = *its;
  }
  return next;
}

TimePoint TimeSlices::rival_from(int rank, TimePoint after, const TimeSliceRules& rules) const {
  TimePoint from = TimePoint::max();
  for (std::size_t i = 0; i < sharers.size(); ++i) {
    if (are_one_party(i, last)) continue;
    const TimePoint its = sharers[i].wants_from(time, rules);
    if (its <= after || sharers[i].rank(std::max(its, time), rules) > rank) continue;
    from = std::min(from, its);
  }
  return from;
}

void TimeSlices::give_to(std::size_t sharer, const TimeSliceRules& rules) {
  const bool is_switch = last != kNobody && (sharer != last || last_is_gone);
  last = sharer;
  last_is_gone = false;
  switch_end = is_switch ? saturating_add(time, rules.context_switch) : time;
  const Duration share = slice_of_share(sharer, rules);
  slice_end = saturating_add(switch_end, share > Duration() ? share : length(rules));
}

Duration TimeSlices::slice_of_share(std::size_t sharer, const TimeSliceRules& rules) const {
  const Sharer& own = sharers[sharer];
  const Duration left = own.share_left(switch_end, rules);
  if (own.share.tenant == 0) return left;
  const auto wanting = std::ranges::count_if(sharers, [&](const Sharer& its) {
    return its.share.tenant == own.share.tenant && its.wants_at(switch_end, rules);
  });
  const Duration whole = rules.period * own.share.part / kWholeWidth;
  const Duration part = whole / std::max<std::int64_t>(wanting, 1);
  return std::min(left, std::max(part, length(rules)));
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
  const auto own = last != kNobody && !last_is_gone ? urgency(last, rules) : std::nullopt;
  if (own) {
    const TimePoint over = time < slice_end ? end_of_turn(*own, rules) : rival_from(*own, rules);
    if (over > time) return serve(until, *own, rules);
    return give_to(next_in_ring(rules), rules);
  }
  const std::size_t next = next_in_ring(rules);
  if (next != kNobody) return give_to(next, rules);
  TimePoint first = until;
  for (const Sharer& sharer : sharers) first = std::min(first, sharer.wants_from(time, rules));
  time = first;
}

/// Returns when the last party, which has this rank, has to give the engine to another, as far as
/// is known; the last TimePoint if to none.
TimePoint TimeSlices::end_of_turn(int rank, const TimeSliceRules& rules) const {
  const TimePoint rival = rival_from(rank, rules);
  if (rival == TimePoint::max()) return rival;
  TimePoint end = boundary_from(slice_end, std::max(rival, time), length(rules));
  if (sharers[last].share.part == 0) return end;
  // Only those who came before await the end of a share.
  const TimePoint newcomer = rival_from(rank, switch_end, rules);
  if (newcomer == TimePoint::max()) return end;
  return std::min(end, boundary_from(saturating_add(switch_end, length(rules)),
                                     std::max(newcomer, time), length(rules)));
}

/// Lets the last party, which has this rank, work at its paces, until a time at most, until its
/// turn ends, or until its processes want something else.
void TimeSlices::serve(TimePoint until, int rank, const TimeSliceRules& rules) {
  if (time < switch_end) {
    time = std::min(until, switch_end);
    return;
  }
  TimePoint end = std::min(until, end_of_turn(rank, rules));
  if (has_shares()) end = std::min(end, next_period(time, rules));
  if (const Duration left = sharers[last].share_left(time, rules); left > Duration()) {
    end = std::min(end, saturating_add(time, left));
  }
  if (sharers[last].server == 0) {
    end = std::min(end, sharers[last].end_of_demand(time, Pace{}));
    work_for(last, end, Pace{}, rules);
  } else {
    end = serve_clients(end, rules);
  }
  time = end;
  slice_end = boundary_from(slice_end, time, length(rules));
}

void TimeSlices::work_for(std::size_t sharer, TimePoint end, Pace pace,
                          const TimeSliceRules& rules) {
  Sharer& own = sharers[sharer];
  own.work(time, end, pace);
  own.charge(time, end, rules);
  if (own.share.tenant == 0) return;
  for (std::size_t i = 0; i < sharers.size(); ++i) {
    if (i != sharer && sharers[i].share.tenant == own.share.tenant) {
      sharers[i].charge(time, end, rules);
    }
  }
}

/// Works for the clients of the last party until one of them wants something else, or until a time.
/// Returns when that is.
TimePoint TimeSlices::serve_clients(TimePoint until, const TimeSliceRules& rules) {
  std::array<std::size_t, layout::kMostSharers> working{};
  std::array<std::uint32_t, layout::kMostSharers> widths{};
  std::array<std::uint32_t, layout::kMostSharers> memory{};
  std::array<Pace, layout::kMostSharers> paces{};
  bool needs_memory = false;
  for (std::size_t i = 0; i < sharers.size(); ++i) {
    if (!are_one_party(i, last) || sharers[i].wants_at(time, rules)) continue;
    until = std::min(until, sharers[i].wants_from(time, rules));
  }
  std::int64_t room = kWholeWidth;
  std::size_t count = 0;
  for (const auto priority :
       {ProcessPriority::kHigh, ProcessPriority::kNormal, ProcessPriority::kLow}) {
    const std::size_t first = count;
    for (std::size_t i = 0; i < sharers.size() && room > 0; ++i) {
      if (sharers[i].priority != priority || !are_one_party(i, last)) continue;
      if (!sharers[i].wants_at(time, rules)) continue;
      const KernelNeeds& needs = sharers[i].demands[0].needs;
      widths.at(count) =
          needs.compute == 0 ? sharers[i].width : std::min(sharers[i].width, needs.compute);
      memory.at(count) = needs.memory;
      needs_memory = needs_memory || needs.memory > 0;
      working.at(count++) = i;
    }
    if (count == first) continue;
    room = set_paces(std::span(widths).subspan(first, count - first),
                     std::span(paces).subspan(first, count - first), room);
  }
  if (needs_memory) {
    limit_paces_by_memory(std::span(memory).first(count), std::span(paces).first(count));
  }
  for (std::size_t k = 0; k < count; ++k) {
    until = std::min(until, sharers[working.at(k)].end_of_demand(time, paces.at(k)));
  }
  for (std::size_t k = 0; k < count; ++k) {
    work_for(working.at(k), until, paces.at(k), rules);
  }
  return until;
}

void TimeSlices::advance_past(std::size_t sharer, TimePoint end, const TimeSliceRules& rules) {
  const Sharer& one = sharers[sharer];
  for (int steps = 0; steps < kMostSteps && one.demand_count > 0; ++steps) {
    const bool has_passed =
        one.turns > 0 && one.last_turns[(one.turns - 1) % Sharer::kTurnsKept].end > end;
    // The turn of a process by itself ends when another one has the engine, or when its cap does.
    const bool is_stopped = one.share.capped && !one.wants_at(time, rules);
    if (has_passed && (one.server != 0 || last != sharer || is_stopped)) return;
    step(TimePoint::max(), rules);
  }
}

TimePoint TimeSlices::next_turn(std::size_t sharer, const TimeSliceRules& rules) const {
  TimeSlices ahead = *this;
  for (int steps = 0; steps < kMostSteps && ahead.sharers[sharer].demand_count > 0; ++steps) {
    if (ahead.has_turn(sharer, rules)) return std::max(ahead.time, ahead.switch_end);
    ahead.step(TimePoint::max(), rules);
  }
  return TimePoint::max();
}

TimePoint TimeSlices::demand_end(std::size_t sharer, const TimeSliceRules& rules) const {
  TimeSlices ahead = *this;
  const std::size_t demands = sharers[sharer].demand_count;
  for (int steps = 0; steps < kMostSteps && ahead.sharers[sharer].demand_count == demands;
       ++steps) {
    ahead.step(TimePoint::max(), rules);
  }
  return ahead.time;
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

namespace {

/// The outcome of a max-min fair division.
struct Division {
  std::array<bool, layout::kMostSharers> fits{};  ///< who gets all that it needs.
  std::int64_t room = 0;                          ///< for the others together,
  std::int64_t others = 0;                        ///< who are so many.

  /// Returns the pace of one of the others, which needs so much at full pace.
  [[nodiscard]] Pace pace(std::uint32_t need) const {
    const std::int64_t needed = need * others;
    const std::int64_t divisor = std::gcd(room, needed);
    return {.work = static_cast<std::uint32_t>(room / divisor),
            .time = static_cast<std::uint32_t>(needed / divisor)};
  }
};

/// Whoever needs at most an equal part of what is left gets what it needs.
Division divide(std::span<const std::uint32_t> needs, std::int64_t room) {
  Division division{.room = room, .others = static_cast<std::int64_t>(needs.size())};
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (std::size_t i = 0; i < needs.size(); ++i) {
      if (division.fits.at(i) || needs[i] * division.others > division.room) continue;
      division.fits.at(i) = has_changed = true;
      division.room -= needs[i];
      --division.others;
    }
  }
  return division;
}

}  // namespace

std::int64_t set_paces(std::span<const std::uint32_t> widths, std::span<Pace> paces,
                       std::int64_t room) {
  const Division division = divide(widths, room);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    paces[i] = division.fits.at(i) ? Pace{} : division.pace(widths[i]);
  }
  return division.others == 0 ? division.room : 0;
}

void limit_paces_by_memory(std::span<const std::uint32_t> needs, std::span<Pace> paces) {
  std::array<std::uint32_t, layout::kMostSharers> used{};
  for (std::size_t i = 0; i < needs.size(); ++i) {
    used.at(i) =
        static_cast<std::uint32_t>(std::uint64_t{needs[i]} * paces[i].work / paces[i].time);
  }
  const Division division = divide(std::span(used).first(needs.size()), kWholeWidth);
  for (std::size_t i = 0; i < needs.size(); ++i) {
    if (!division.fits.at(i)) paces[i] = division.pace(needs[i]);
  }
}

TimePoint TimeSlices::time_of_turns(std::size_t sharer, std::uint64_t turns, TimePoint latest,
                                    const TimeSliceRules& rules) const {
  TimeSlices ahead = *this;
  const std::uint64_t last_turn = sharers[sharer].turns + turns;
  for (int steps = 0; steps < kMostSteps; ++steps) {
    if (ahead.sharers[sharer].turns >= last_turn) return std::min(ahead.time, latest);
    if (ahead.time >= latest || ahead.sharers[sharer].demand_count == 0) break;
    ahead.step(latest, rules);
  }
  return latest;
}

}  // namespace gpemu::device
