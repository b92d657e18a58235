// SPDX-License-Identifier: Apache-2.0
#include "party.hpp"

#include <algorithm>
#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "gpemu/base/error.hpp"
#include "gpemu/base/saturate.hpp"

namespace gpemu::device {
namespace {

constexpr std::uint64_t kKept = layout::kArrivalsKept;

/// Makes what is read from now on be read after what was read from the clock before. Otherwise, the
/// processor may read an arrival that another process takes back before it reads the clock.
void finish_reading_the_clock() {
#if defined(__x86_64__)
  ::_mm_lfence();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// Returns what a seat's party does in a round, if its arrival is published.
RoundWork work_of(const layout::SeatRecord& seat, std::uint64_t round) {
  const layout::ArrivalRecord& record = seat.arrivals[round % kKept];
  return {.pattern = record.pattern,
          .width = record.width,
          .gives = record.gives,
          .needs = record.needs};
}

}  // namespace

Party::Round* Party::unpublished() {
  const std::uint64_t ahead = published_ - ended_;
  return ahead < std::min<std::uint64_t>(rounds_.size(), layout::kArrivalsAhead) ? &rounds_[ahead]
                                                                                 : nullptr;
}

void Party::publish(const Arrival& arrival, TimePoint now) {
  GPEMU_CHECK(unpublished() != nullptr, "an arrival at a round that is not queued");
  arrivals_[published_ % kKept] = {.arrival = arrival,
                                   .cost = rounds_[published_ - ended_].cost,
                                   .work = rounds_[published_ - ended_].work,
                                   .at = now};
  show(published_);
  ++published_;
  show_count();
  if (!arrival.is_final) promised_ = published_;
}

void Party::show(std::uint64_t round) {
  const Published& own = arrivals_[round % kKept];
  layout::ArrivalRecord& record = shown_.arrivals[round % kKept];
  record.time_ns = to_ns(own.arrival.time);
  record.after_ns = own.arrival.after.count();
  record.rounds_back = own.arrival.rounds_back;
  record.is_final = own.arrival.is_final ? 1 : 0;
  record.cost_ns = own.cost.count();
  record.published_ns = to_ns(own.at);
  record.pattern = own.work.pattern;
  record.width = own.work.width;
  record.gives = own.work.gives;
  record.needs = own.work.needs;
}

void Party::show_count() {
  shown_.count = published_;
  shown_.changes = changes_;
}

void Party::repair() {
  for (std::uint64_t round = 0; round < kKept; ++round) show(round);
  show_count();
}

std::optional<Party::Arrival> Party::arrival_of(const Round& round) const {
  const auto place_of = [&](const MarkReference& mark) {
    return std::ranges::find(rounds_, mark.get(), [](const Round& one) { return one.mark.get(); });
  };
  const auto place = place_of(round.mark);
  Arrival arrival{.time = round.ready.time, .is_final = false};
  for (const Ready::Term& term : round.ready.terms) {
    const auto found = place_of(term.round);
    if (found == rounds_.end()) return std::nullopt;
    // A round comes after all earlier ones in any case.
    if (term.after == Duration()) continue;
    if (arrival.rounds_back != 0) return std::nullopt;
    arrival.after = term.after;
    arrival.rounds_back = static_cast<std::uint32_t>(place - found);
  }
  return arrival;
}

/// Returns a seat's arrival at a round, if it is published. Requires: the ends of the rounds before
/// are known.
std::optional<Party::Entry> Party::read(std::size_t number, std::uint64_t round, const Ends& ends,
                                        TimePoint now) const {
  const layout::SeatRecord& seat = seats_[number];
  if (stuck_[number]) return std::nullopt;
  const std::uint64_t changes = seat.changes;
  if (seat.count <= round) return std::nullopt;
  const layout::ArrivalRecord& record = seat.arrivals[round % kKept];
  TimePoint ready{Duration(record.time_ns)};
  const Duration after{record.after_ns};
  const Duration cost{record.cost_ns};
  const std::uint64_t rounds_back = record.rounds_back;
  const bool is_final = record.is_final != 0;
  const RoundWork work = work_of(seat, round);
  if (seat.changes != changes) return std::nullopt;
  if (rounds_back != 0 && rounds_back <= std::min(round, kKept - 1)) {
    ready = std::max(ready, saturating_add(ends[(round - rounds_back) % kKept], after));
  }
  // A time that is further away than any process queues is damage, and not an arrival.
  if (ready > saturating_add(now, layout::kLongestQueue) || cost > layout::kLongestQueue) {
    return std::nullopt;
  }
  // Work that takes no time may be between the round before and this one.
  const TimePoint reached = round == 0 ? ready : std::max(ready, ends[(round - 1) % kKept]);
  return Entry{.ready = ready, .cost = cost, .work = work, .is_final = is_final || reached <= now};
}

Party::Known Party::known(std::uint64_t round, const Ends& ends, TimePoint now) const {
  Known known;
  if (round > 0) known.latest = ends[(round - 1) % kKept];
  const Round* const own = round - ended_ < rounds_.size() ? &rounds_[round - ended_] : nullptr;
  finish_reading_the_clock();
  for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
    const auto entry = read(seat, round, ends, now);
    known.all_come = known.all_come && entry;
    known.all_final = known.all_final && entry && entry->is_final;
    if (!entry) continue;
    if (entry->ready > known.latest) {
      known.latest = entry->ready;
      known.last = seat;
    }
    known.cost = std::max(known.cost, entry->cost);
    if (own != nullptr) known.ends = known.ends && own->work.ends_beside(entry->work);
  }
  return known;
}

void Party::take_back(TimePoint now) {
  taken_back_ = published_;
  published_ = ended_;
  while (published_ < taken_back_) {
    // The first round has not ended, so what depends on it has not passed.
    const bool has_passed = published_ == ended_ && ready_of(published_) <= now;
    if (!arrivals_[published_ % kKept].arrival.is_final && !has_passed) break;
    ++published_;
  }
  ++changes_;
  show_count();
  promised_ = ended_;
}

bool Party::took_back_too_late(TimePoint now) const {
  if (published_ == taken_back_) return false;
  if (published_ == ended_) return ready_of(ended_) <= now;
  // What comes after the first round may have passed if that has ended.
  const Known first = known(ended_, ends_, now);
  return first.all_final && saturating_add(first.latest, first.cost) <= now;
}

/// Returns when this party is ready for a round that is or was published. Requires: the ends of the
/// rounds before are known.
TimePoint Party::ready_of(std::uint64_t round) const {
  const Arrival& arrival = arrivals_[round % kKept].arrival;
  TimePoint ready = arrival.time;
  if (round > 0) ready = std::max(ready, ends_[(round - 1) % kKept]);
  if (arrival.rounds_back == 0) return ready;
  return std::max(ready,
                  saturating_add(ends_[(round - arrival.rounds_back) % kKept], arrival.after));
}

void Party::restore() {
  published_ = promised_ = taken_back_;
  show_count();
}

std::optional<RoundTimes> Party::times(TimePoint now) const {
  if (rounds_.empty() || published_ == ended_) return std::nullopt;
  const Known round = known(ended_, ends_, now);
  if (!round.all_final || !round.ends) return std::nullopt;
  const TimePoint previous = ended_ == 0 ? TimePoint() : ends_[(ended_ - 1) % kKept];
  return RoundTimes{.arrived = std::min(std::max(ready_of(ended_), previous), round.latest),
                    .start = round.latest,
                    .end = saturating_add(round.latest, round.cost),
                    .last = round.last};
}

Party::Expected Party::expected_end(std::uint64_t round, TimePoint now) const {
  Ends ends = ends_;
  for (std::uint64_t number = ended_;; ++number) {
    const Known known = this->known(number, ends, now);
    if (!known.ends) return {.end = TimePoint::max(), .all_come = true};
    const TimePoint end = saturating_add(known.latest, known.cost);
    if (number == round || !known.all_come) return {.end = end, .all_come = known.all_come};
    ends[number % kKept] = end;
  }
}

std::optional<std::uint64_t> Party::number_of(const Mark* mark) const {
  const auto found =
      std::ranges::find(rounds_, mark, [](const Round& one) { return one.mark.get(); });
  if (found == rounds_.end()) return std::nullopt;
  return ended_ + static_cast<std::uint64_t>(found - rounds_.begin());
}

std::uint64_t Party::round_to_publish() const {
  if (published_ - ended_ == rounds_.size()) return kNoRound;
  // Late enough for many at once, and early enough for the others to sleep as long.
  return ended_ + layout::kArrivalsAhead * 3 / 4 - 1;
}

std::uint64_t Party::complete_rounds() const {
  std::uint64_t complete = kNoRound;
  for (const layout::SeatRecord& seat : seats_) complete = std::min(complete, seat.count.load());
  return complete;
}

void Party::pop(TimePoint end) {
  GPEMU_CHECK(!rounds_.empty(), "a round that is not queued has ended");
  ends_[ended_ % kKept] = end;
  find_stuck();
  ++ended_;
  published_ = std::max(published_, ended_);
  rounds_.pop_front();
}

/// Finds the parties for which the first round never ends, though it does for this one.
void Party::find_stuck() {
  RoundWork least = work_of(seats_.front(), ended_);
  for (const layout::SeatRecord& seat : seats_) {
    const RoundWork work = work_of(seat, ended_);
    least.width = std::min(least.width, work.width);
    least.gives = std::min(least.gives, work.gives);
  }
  for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
    if (!work_of(seats_[seat], ended_).ends_beside(least)) stuck_[seat] = true;
  }
}

Duration Party::lateness(TimePoint end) const {
  Duration late{};
  for (const layout::SeatRecord& seat : seats_) {
    const std::int64_t published = seat.arrivals[ended_ % kKept].published_ns;
    late = std::max(late, at_ns(std::max(published, std::int64_t{0})) - end);
  }
  return late;
}

bool Party::lacks(const layout::SeatRecord& seat, TimePoint now) const {
  if (rounds_.empty()) return false;
  const auto entry = read(static_cast<std::size_t>(&seat - seats_.data()), ended_, ends_, now);
  return !entry || !entry->is_final;
}

}  // namespace gpemu::device
