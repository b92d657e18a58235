// SPDX-License-Identifier: Apache-2.0
//
// The part of the schedule that deals with rounds of rendezvous.
#include <algorithm>
#include <iterator>
#include <utility>

#include "gpemu/base/saturate.hpp"
#include "gpemu/sim/clock.hpp"

#include "schedule.hpp"
#include "segment.hpp"

namespace gpemu::device {
namespace {

/// Returns whether a mark is of a round of that party.
bool is_round_of(Party& party, const Mark* mark) {
  return std::ranges::any_of(party.rounds(),
                             [&](const Party::Round& round) { return round.mark.get() == mark; });
}

}  // namespace

void Schedule::add(Party& party) {
  parties_.push_back(&party);
}

void Schedule::remove(Party& party) {
  std::erase(parties_, &party);
}

void Schedule::abort(Party& party, TimePoint now) {
  enter(now);
  while (!party.rounds().empty()) give_end(party, now_);
  advance(now);
}

Moment Schedule::arrive(Party& party, Lane& lane, TimePoint now, Duration cost) {
  enter(now);
  follow_group(lane, now);
  cost = std::clamp(cost, Duration(1), layout::kLongestQueue);
  const TimePoint expected = saturating_add(std::max(now, lane.expected_end), cost);
  const MarkReference mark(new Mark(*this, expected));
  mark.get()->open_ = true;
  party.add({.lane = &lane, .mark = mark, .cost = cost});
  if (open_rounds_++ == 0) reached_ = now_;
  wait(lane, now, Moment(now, mark));
  advance(now);
  const NextLook look = next_look(now);
  layout::ProcessRecord& own = segment_.process(segment_.identity());
  if (look.time < planned_look_ || (look.listens && own.listening == 0)) ring(own);
  return {TimePoint{}, mark};
}

/// Every function that queues or asks starts with this. With open rounds, it first does all work
/// that was due until now.
void Schedule::enter(TimePoint now) {
  now_ = std::max(now_, now);
  if (open_rounds_ > 0) catch_up(now_);
}

/// Goes through starts, arrivals and ends in the order of their times, so that it makes no
/// difference who looks when.
void Schedule::catch_up(TimePoint now) {
  while (true) {
    for (const auto& group : groups_) look_at_group(*group, reached_);
    while (Lane* const lane = place_next(reached_)) drop_started(*lane, reached_);
    // A round whose end has become known now may have ended earlier.
    if (settle_rounds()) continue;
    const TimePoint next = next_event();
    if (next > now) break;
    reached_ = next;
  }
  reached_ = std::max(reached_, now);
}

/// Returns when the next work gets its time or the next arrival becomes final, as far as known.
TimePoint Schedule::next_event() {
  TimePoint first = next_turn().start;
  for (Party* const party : parties_) {
    const Party::Round* const round = party->unpublished();
    if (round == nullptr || party->failed != nullptr) continue;
    const TimePoint known = ready_known_at(*party, *round);
    if (known > reached_) first = std::min(first, known);
  }
  return first;
}

/// Publishes final arrivals, and gives an end to rounds at which all have arrived. Returns whether
/// it gave any.
bool Schedule::settle_rounds() {
  bool has_given = false;
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (Party* const party : parties_) {
      if (party->failed != nullptr) continue;
      const bool has_published = publish_rounds(*party);
      bool has_ended = false;
      for (auto end = party->end(now_); end; end = party->end(now_)) {
        lateness_.add(now_ - *end);
        give_end(*party, *end);
        has_ended = true;
      }
      // The last party to come notifies the others; if two came at the same time, both do.
      if (has_published && has_ended) ring_listeners(*party);
      has_changed = has_changed || has_published || has_ended;
      has_given = has_given || has_ended;
    }
  }
  return has_given;
}

bool Schedule::publish_rounds(Party& party) {
  bool has_published = false;
  while (const Party::Round* const round = party.unpublished()) {
    const auto ready = ready_time(party, *round);
    if (!ready) break;
    party.publish(*ready);
    has_published = true;
  }
  return has_published;
}

/// Returns when a lane reaches a round, not counting earlier rounds of the party, unless work that
/// has not started may still put that off.
std::optional<TimePoint> Schedule::ready_time(Party& party, const Party::Round& round) {
  Lane& lane = *round.lane;
  TimePoint ready = lane.started_end;
  for (std::size_t i = 0; i < lane.tasks.size(); ++i) {
    const Task& task = lane.tasks[i];
    if (task.engine != Task::kWait) return std::nullopt;
    ready = std::max(ready, task.asked);
    const Mark* const mark = task.waits_for.get();
    if (mark == round.mark.get()) break;
    if (mark == nullptr) continue;
    if (mark->final_) {
      ready = std::max(ready, mark->time());
    } else if (!is_round_of(party, mark)) {
      return std::nullopt;
    }
  }
  return ready;
}

/// Returns when to look whether ready_time has become known, as far as is known.
TimePoint Schedule::ready_known_at(Party& party, const Party::Round& round) {
  Lane& lane = *round.lane;
  TimePoint known{};
  for (std::size_t i = 0; i < lane.tasks.size(); ++i) {
    const Task& task = lane.tasks[i];
    const Mark* const mark = task.waits_for.get();
    if (task.engine != Task::kWait) {
      if (i >= lane.placed) return TimePoint::max();
      known = std::max(known, last_start(lane, i));
      continue;
    }
    if (mark == round.mark.get()) break;
    if (mark == nullptr || mark->final_ || is_round_of(party, mark)) continue;
    if (!mark->placed_) return TimePoint::max();
    known = std::max(known, mark->start_);
  }
  return known;
}

/// Ends a party's first round.
void Schedule::give_end(Party& party, TimePoint end) {
  const MarkReference mark = party.rounds().front().mark;
  party.pop(end);
  --open_rounds_;
  mark->time_ns_ = end.time_since_epoch().count();
  mark->placed_ = true;
  mark->final_ = true;
  // Placed work that became ready later may be put off by work after the round.
  const bool puts_off = std::ranges::any_of(
      engines_, [&](const EngineState& engine) { return engine.last_ready >= end; });
  if (puts_off) {
    start_over(reached_);
  } else {
    release(*mark.get());
    place_woken();
  }
  tell_news();
}

void Schedule::tell_news() {
  ++news;
  if (waiting_for_news > 0) sim::wake_all(news);
}

/// Wakes the threads that settle, where they listen for other parties, including this process's
/// own.
void Schedule::ring_listeners(Party& party) {
  for (const layout::SeatRecord& seat : party.seats()) {
    layout::ProcessRecord& process = segment_.process(seat.owner);
    if (process.listening.exchange(0) != 0) ring(process);
  }
}

void Schedule::ring(layout::ProcessRecord& process) {
  ++process.bell;
  sim::wake_all(process.bell);
}

Schedule::NextLook Schedule::next_look(TimePoint now) {
  NextLook look;
  if (open_rounds_ == 0) return look;
  place_all();
  for (Party* const party : parties_) {
    if (party->rounds().empty() || party->failed != nullptr) continue;
    if (const Party::Round* const round = party->unpublished()) {
      look.time = std::min(look.time, ready_known_at(*party, *round));
      if (round == &party->rounds().front()) continue;
    }
    const TimePoint end = party->earliest_end(now);
    if (end <= now) {
      look.listens = true;
    } else {
      look.time = std::min(look.time, end);
    }
  }
  return look;
}

Schedule::NextLook Schedule::plan_look(TimePoint now, TimePoint latest) {
  NextLook look = next_look(now);
  if (open_rounds_ > 0) look.time = std::min(look.time, latest);
  planned_look_ = look.time;
  return look;
}

void Schedule::find_failures() {
  for (Party* const party : parties_) {
    if (party->failed != nullptr) continue;
    for (const layout::SeatRecord& seat : party->seats()) {
      if (!party->lacks(seat) || segment_.seats().can_come(seat)) continue;
      // It may have come before it died.
      settle_rounds();
      if (!party->lacks(seat)) continue;
      party->failed = &seat;
      tell_news();
      break;
    }
  }
}

}  // namespace gpemu::device
