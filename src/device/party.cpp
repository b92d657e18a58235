// SPDX-License-Identifier: Apache-2.0
#include "party.hpp"

#include <algorithm>

#include "gpemu/base/saturate.hpp"

namespace gpemu::device {

Party::Round* Party::unpublished() {
  const std::uint64_t ahead = published_ - ended_;
  return ahead < std::min<std::uint64_t>(rounds_.size(), layout::kArrivalsAhead) ? &rounds_[ahead]
                                                                                 : nullptr;
}

void Party::publish(TimePoint ready) {
  layout::ArrivalRecord& arrival = own_.arrivals[published_ % layout::kArrivalsKept];
  arrival.time_ns = ready.time_since_epoch().count();
  arrival.cost_ns = rounds_[published_ - ended_].cost.count();
  own_.count = ++published_;
}

Party::Known Party::known(TimePoint now) const {
  Known known{.latest = last_end_};
  const TimePoint bound = saturating_add(now, layout::kLongestQueue);
  for (const layout::SeatRecord& seat : seats_) {
    const layout::ArrivalRecord& arrival = seat.arrivals[ended_ % layout::kArrivalsKept];
    const TimePoint time{Duration(arrival.time_ns)};
    const Duration cost{arrival.cost_ns};
    // A time that is further away than any process queues is damage, and not an arrival.
    if (seat.count <= ended_ || time > bound || cost > layout::kLongestQueue) {
      known.all = false;
      continue;
    }
    known.latest = std::max(known.latest, time);
    known.cost = std::max(known.cost, cost);
  }
  return known;
}

std::optional<TimePoint> Party::end(TimePoint now) const {
  if (rounds_.empty() || published_ == ended_) return std::nullopt;
  const Known round = known(now);
  return round.all ? std::optional(saturating_add(round.latest, round.cost)) : std::nullopt;
}

TimePoint Party::earliest_end(TimePoint now) const {
  const Known round = known(now);
  return saturating_add(round.latest, round.cost);
}

void Party::pop(TimePoint end) {
  last_end_ = end;
  ++ended_;
  published_ = std::max(published_, ended_);
  rounds_.pop_front();
}

bool Party::lacks(const layout::SeatRecord& seat) const {
  return !rounds_.empty() && seat.count <= ended_;
}

}  // namespace gpemu::device
