// SPDX-License-Identifier: Apache-2.0
#include "schedule.hpp"

#include <algorithm>
#include <utility>

#include "gpemu/base/undo.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::device {
namespace {

/// Returns whether a mark is of a round of that party.
bool is_round_of(Party& party, const Mark* mark) {
  return std::ranges::any_of(party.rounds(),
                             [&](const Party::Round& round) { return round.mark.get() == mark; });
}

/// A flag that is raised in a scope.
class Raised {
 public:
  explicit Raised(bool& flag) : flag_(flag), before_(std::exchange(flag, true)) {}
  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;
  ~Raised() { flag_ = before_; }

 private:
  bool& flag_;
  bool before_;
};

}  // namespace

Schedule::Schedule(std::vector<DeviceEngines> devices, Peers peers)
    : peers_(std::move(peers)), timeline_(this, std::move(devices)) {}

void Schedule::add(Party& party, sim::Clock& clock) {
  clock_ = &clock;
  parties_.push_back(&party);
  timeline_.follow_rounds();
}

void Schedule::abort(Party& party, TimePoint now) {
  enter(now);
  if (party.has_promised()) now = take_back_arrivals(now);
  while (!party.rounds().empty()) {
    // Not as end_outside does: others must not take it for an arrival.
    const MarkReference outside = party.rounds().front().outside;
    if (outside && outside->is_open()) {
      --open_marks_;
      timeline_.resolve(*outside.get(), timeline_.now(), reached_);
    }
    give_end(party, timeline_.now());
  }
  advance(now);
}

Moment Schedule::arrive(Party& party, Lane& lane, TimePoint now, NewRound round) {
  const Raised held(holds_ring_);
  enter(now);
  const MarkReference mark = queue_round(party, lane, now, std::move(round)).mark;
  advance(now);
  call_settler(plan_look(now));
  return {TimePoint{}, mark};
}

/// Queues two rounds: at the first, all have arrived; at the second, all that is outside has ended.
Moment Schedule::arrive_open(Party& party, Lane& lane, TimePoint now, NewRound round, Begin begin) {
  enter(now);
  const Duration cost = std::clamp(round.cost, Duration(), layout::kLongestQueue);
  struct Begun {
    RoundTimes times;
    MarkReference outside;
  };
  const auto begun = std::make_shared<Begun>();
  const bool has_outside = begin != nullptr;
  const auto all_came = [=, begin = std::move(begin)](const RoundTimes& times) {
    begun->times = times;
    if (!begun->outside) return;
    RoundTimes first = times;
    first.end = saturating_add(times.start, cost);
    begin(first, begun->outside);
  };
  queue_round(party, lane, now, {.work = round.work, .observer = all_came});
  if (has_outside) {
    begun->outside = timeline_.wait_for_open_mark(lane, now, cost);
    count_open_mark();
  }
  const auto all_ended = [=, observer = std::move(round.observer)](const RoundTimes& times) {
    if (!observer) return;
    RoundTimes all = begun->times;
    all.end = times.end;
    observer(all);
  };
  Party::Round& last = queue_round(party, lane, now, {.observer = all_ended});
  last.outside = begun->outside;
  const MarkReference mark = last.mark;
  advance(now);
  call_settler(plan_look(now));
  return {TimePoint{}, mark};
}

void Schedule::end_outside(Mark& outside, TimePoint now, TimePoint earliest) {
  enter(now);
  if (!outside.is_open()) return;
  --open_marks_;
  timeline_.resolve(outside, std::max(timeline_.now(), earliest), reached_);
  news.tell();
  advance(now);
  call_settler(plan_look(now));
}

/// Adds a round to those of a party, and a wait for its end to a lane.
Party::Round& Schedule::queue_round(Party& party, Lane& lane, TimePoint now, NewRound queued) {
  const Duration cost = std::clamp(queued.cost, Duration(1), layout::kLongestQueue);
  Ready ready = timeline_.ready(lane, now);
  Party::Round& round = party.add();
  Undo added([&] { party.remove_last(); });
  const MarkReference mark = timeline_.wait_for_open_mark(lane, now, cost);
  round = {.lane = &lane,
           .mark = mark,
           .cost = cost,
           .work = queued.work,
           .ready = std::move(ready),
           .observer = std::move(queued.observer)};
  added.keep();
  has_queued_ = true;
  count_open_mark();
  return round;
}

/// Takes back all arrivals that are not final. Returns the time at which what was about to be
/// queued is queued: others may have relied on what became final until then.
TimePoint Schedule::take_back_arrivals(TimePoint now) {
  timeline_.invalidate();
  for (bool is_late = !parties_.empty(); is_late;) {
    for (Party* const party : parties_) party->take_back(now);
    // Whoever reads an arrival later does not see what was taken back.
    now = std::max(now, clock_->now());
    is_late = false;
    for (Party* const party : parties_) {
      if (!party->took_back_too_late(now)) continue;
      party->restore();
      // The rounds of a party that has failed do not end, however late it is.
      is_late = is_late || party->failed() == nullptr;
    }
    enter(now);
  }
  timeline_.keep_promises(false);
  return now;
}

/// Goes through starts, arrivals and ends in the order of their times, so that it makes no
/// difference who looks when.
void Schedule::catch_up() {
  while (true) {
    timeline_.forget_started(reached_);
    timeline_.place_until(reached_);
    // A round whose end has become known now may have ended earlier.
    if (settle_rounds()) continue;
    const TimePoint next = next_event();
    if (next > timeline_.now()) break;
    reached_ = next;
  }
  reached_ = std::max(reached_, timeline_.now());
}

/// Returns when the next work gets its time or the next arrival becomes final, as far as known.
TimePoint Schedule::next_event() {
  TimePoint first = timeline_.next_start();
  for (Party* const party : parties_) {
    const Party::Round* const round = party->unpublished();
    if (round == nullptr || party->failed() != nullptr) continue;
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
      if (party->failed() != nullptr) continue;
      const bool has_published = publish_rounds(*party);
      if (has_published) ring_listeners(*party);
      bool has_ended = false;
      while (const auto times = party->times(timeline_.now())) {
        lateness_.add(party->lateness(times->end));
        const auto observer = std::move(party->rounds().front().observer);
        give_end(*party, times->end);
        if (observer) observer(*times);
        has_ended = true;
      }
      has_changed = has_changed || has_published || has_ended;
      has_given = has_given || has_ended;
    }
  }
  return has_given;
}

bool Schedule::publish_rounds(Party& party) {
  bool has_published = false;
  while (Party::Round* const round = party.unpublished()) {
    const auto arrival = arrival_at(party, *round);
    if (!arrival) break;
    party.publish(*arrival, timeline_.now());
    has_published = true;
  }
  return has_published;
}

/// Returns when a party reaches a round, if that is final or depends on nothing but the group's
/// earlier rounds.
std::optional<Party::Arrival> Schedule::arrival_at(Party& party, Party::Round& round) {
  if (never_arrives(party, round)) return std::nullopt;
  if (const auto ready = ready_time(party, round)) return Party::Arrival{.time = *ready};
  // How long work of a disturbed device takes depends on when it runs.
  if (timeline_.speed_of(*round.lane) != nullptr) return std::nullopt;
  if (!timeline_.update(round.ready) || !timeline_.is_alone(timeline_.now())) return std::nullopt;
  const auto arrival = party.arrival_of(round);
  if (arrival) timeline_.keep_promises(true);
  return arrival;
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
    if (mark->is_final()) {
      ready = std::max(ready, mark->time());
    } else if (!is_round_of(party, mark)) {
      return std::nullopt;
    }
  }
  return ready;
}

/// Returns whether the device of a round's lane is lost before the lane reaches the round.
bool Schedule::never_arrives(Party& party, const Party::Round& round) {
  const Speed* const speed = timeline_.speed_of(*round.lane);
  if (speed == nullptr) return false;
  const auto ready = ready_time(party, round);
  return ready && *ready >= speed->lost_from(*ready);
}

/// Returns when to look whether ready_time has become known, as far as is known.
TimePoint Schedule::ready_known_at(Party& party, const Party::Round& round) {
  if (never_arrives(party, round)) return TimePoint::max();
  Lane& lane = *round.lane;
  TimePoint known{};
  for (std::size_t i = 0; i < lane.tasks.size(); ++i) {
    const Task& task = lane.tasks[i];
    const Mark* const mark = task.waits_for.get();
    if (task.engine != Task::kWait) {
      if (i >= lane.placed) return TimePoint::max();
      known = std::max(known, timeline_.final_from(lane, i));
      continue;
    }
    if (mark == round.mark.get()) break;
    if (mark == nullptr || mark->is_final() || is_round_of(party, mark)) continue;
    if (!mark->has_time()) return TimePoint::max();
    known = std::max(known, mark->start());
  }
  return known;
}

/// Ends a party's first round.
void Schedule::give_end(Party& party, TimePoint end) {
  const MarkReference mark = party.rounds().front().mark;
  party.pop(end);
  --open_marks_;
  timeline_.keep_promises(
      std::ranges::any_of(parties_, [](const Party* one) { return one->has_promised(); }));
  timeline_.resolve(*mark.get(), end, reached_);
  news.tell();
}

/// Wakes the threads that settle, where they listen for a round at which all have come now,
/// including this process's own. If two parties came last at the same time, both do. If this
/// process is killed before its own thread has done so, the others look by themselves within 20 ms.
void Schedule::ring_listeners(Party& party) {
  layout::ProcessRecord& own = *peers_.own;
  const std::uint64_t complete = party.complete_rounds();
  std::vector<layout::ProcessRecord*> others;
  for (const layout::SeatRecord& seat : party.seats()) {
    layout::ProcessRecord& process = peers_.process(seat.owner);
    if (process.listening == 0 || seat.wanted >= complete) continue;
    if (process.listening.exchange(0) == 0) continue;
    if (&process == &own) {
      ring_own();
    } else {
      others.push_back(&process);
    }
  }
  if (holds_ring_) {
    ring_soon(others);
  } else {
    for (layout::ProcessRecord* const one : others) ring(*one);
  }
}

void Schedule::ring_soon(std::span<layout::ProcessRecord* const> processes) {
  // Each wake-up takes the caller some us, as long as a call does.
  constexpr std::size_t kFew = 1;
  if (processes.size() <= kFew || !has_settler_) {
    for (layout::ProcessRecord* const one : processes) ring(*one);
    return;
  }
  owed_rings_.insert(owed_rings_.end(), processes.begin(), processes.end());
  const Raised held(holds_ring_);
  ring_own();
}

void Schedule::ring_owed() {
  for (layout::ProcessRecord* const one : owed_rings_) ring(*one);
  owed_rings_.clear();
}

void Schedule::ring_own() {
  planned_look_ = TimePoint::min();  // It looks as soon as it runs.
  watches_turns_ = true;
  if (holds_ring_) {
    owes_ring_ = true;
  } else {
    ring(*peers_.own);
  }
}

void Schedule::ring(layout::ProcessRecord& process) {
  ++process.bell;
  sim::wake_all(process.bell);
}

bool Schedule::has_unpublished() {
  return std::ranges::any_of(parties_, [](Party* party) {
    return party->failed() == nullptr && party->unpublished() != nullptr;
  });
}

/// Returns the round of a party, by number, before whose end nothing happens to a mark;
/// Party::kNoRound if none of its rounds matters. Requires: all arrivals that may be published are.
std::uint64_t Schedule::round_for(Party& party, const Mark* mark) {
  if (const auto number = party.number_of(mark)) return *number;
  const bool is_of_other = std::ranges::any_of(
      parties_, [mark](const Party* other) { return other->number_of(mark).has_value(); });
  return is_of_other ? Party::kNoRound : party.first();
}

/// Shows others for which rounds this process listens, if it does.
void Schedule::show_wanted() {
  const bool is_first = has_unpublished();
  const News::Awaited awaited(news);
  for (Party* const party : parties_) {
    std::uint64_t wanted = is_first ? party->first() : party->round_to_publish();
    for (const Mark* const mark : awaited) wanted = std::min(wanted, round_for(*party, mark));
    party->want(wanted);
  }
}

/// Returns when to look in order to publish arrivals early enough.
Schedule::NextLook Schedule::look_to_publish(TimePoint now) {
  NextLook look;
  const bool is_first = has_unpublished();
  if (is_first) place_all();
  for (Party* const party : parties_) {
    if (party->rounds().empty() || party->failed() != nullptr) continue;
    if (const Party::Round* const round = party->unpublished()) {
      look.time = std::min(look.time, ready_known_at(*party, *round));
      if (round == &party->rounds().front()) continue;
    }
    const std::uint64_t round = is_first ? party->first() : party->round_to_publish();
    if (round != Party::kNoRound) look.add(party->expected_end(round, now), now);
  }
  return look;
}

/// Returns when to look for a mark (null: for any), and in order to publish arrivals early enough.
Schedule::NextLook Schedule::look_for(TimePoint now, const Mark* awaited) {
  NextLook look = look_to_publish(now);
  if (has_unpublished()) return look;  // It looks at the end of each round.
  for (Party* const party : parties_) {
    if (party->rounds().empty() || party->failed() != nullptr) continue;
    const std::uint64_t round = std::min(round_for(*party, awaited), party->round_to_publish());
    if (round != Party::kNoRound) look.add(party->expected_end(round, now), now);
  }
  return look;
}

Schedule::NextLook Schedule::next_look(TimePoint now) {
  if (open_marks_ == 0) return {};
  place_all();
  return look_for(now, nullptr);
}

const Mark* Schedule::round_before(const Mark& mark) {
  if (mark.ready() == nullptr) return &mark;
  const bool is_only = !mark.is_loose() && mark.ready()->terms.size() == 1;
  return is_only ? mark.ready()->terms.front().round.get() : nullptr;
}

Schedule::NextLook Schedule::plan_wait(TimePoint now, const Mark* awaited) {
  if (open_marks_ == 0) return {};
  show_wanted();
  NextLook look = look_for(now, awaited);
  // Others may have come before they could see that this process listens.
  if (look.listens && peers_.own->listening.exchange(1) == 0) look = look_for(now, awaited);
  call_settler({.time = look_to_publish(now).time});
  return look;
}

/// Makes the thread that settles look, if it would otherwise look later than `look` or never.
void Schedule::call_settler(const NextLook& look) {
  // If the ends of all rounds are known, as those of a process that has all parties, there is
  // nothing to look for.
  if (open_marks_ == 0) return;
  const layout::ProcessRecord& own = *peers_.own;
  // A thread that settles and does not plan to look finds no failures either.
  const bool sleeps = planned_look_ == TimePoint::max();
  if (!sleeps && look.time >= planned_look_ && (!look.listens || own.listening != 0)) return;
  ring_own();
}

Schedule::NextLook Schedule::plan_look(TimePoint now) {
  show_wanted();
  NextLook look = look_to_publish(now);
  // Threads that wait look themselves at the time for which they wait, but hear no bell.
  for (const Mark* const mark : News::Awaited(news)) {
    for (Party* const party : parties_) {
      if (party->rounds().empty() || party->failed() != nullptr) continue;
      const std::uint64_t round = std::min(round_for(*party, mark), party->round_to_publish());
      if (round == Party::kNoRound) continue;
      const Party::Expected end = party->expected_end(round, now);
      look.listens |= !end.all_come && end.end <= now;
    }
  }
  return look;
}

Schedule::NextLook Schedule::plan_look(TimePoint now, TimePoint latest) {
  has_settler_ = true;
  ring_owed();
  NextLook look = plan_look(now);
  // It goes on for a while, so that the next rounds need not wake it.
  if (std::exchange(has_queued_, false) || open_marks_ > 0) look.time = std::min(look.time, latest);
  const TimePoint turn = timeline_.next_look();
  watches_turns_ = turn != TimePoint::max();
  look.time = std::min(look.time, turn);
  planned_look_ = look.time;
  return look;
}

void Schedule::find_failures() {
  for (Party* const party : parties_) {
    if (party->failed() != nullptr) continue;
    if (!party->rounds().empty()) party->repair();
    for (const layout::SeatRecord& seat : party->seats()) {
      if (!party->lacks(seat, timeline_.now()) || peers_.can_come(seat)) continue;
      // It may have come before it left or died, at a time that has passed only since.
      enter(clock_->now());
      if (!party->lacks(seat, timeline_.now())) continue;
      party->fail(seat);
      news.tell();
      break;
    }
  }
}

}  // namespace gpemu::device
