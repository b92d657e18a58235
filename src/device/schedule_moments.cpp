// SPDX-License-Identifier: Apache-2.0
//
// What a moment asks of the schedule.
#include <algorithm>
#include <optional>

#include "gpemu/base/saturate.hpp"
#include "gpemu/sim/clock.hpp"

#include "schedule.hpp"

namespace gpemu::device {
namespace {

/// How early a thread that waits for a round looks whether all have come, in leads of the clock. If
/// they have, the end becomes final, and the thread has nothing left to do when it wakes up at the
/// end. This matters where several ranks share a core, because they wake up one after the other.
/// Source: scripts/claims/check_ranks.py; eight ranks on two cores need 200 us for their looks.
constexpr int kLeadsOfEarlyLook = 5;

}  // namespace

bool Moment::is_over(TimePoint now) const {
  if (time_ > now) return false;
  if (!mark_) return true;
  if (!mark_->is_final()) {
    const Lock lock(mark_->schedule().mutex);
    mark_->schedule().advance(now);
    if (!mark_->has_time()) return false;
  }
  return mark_->time() <= now;
}

TimePoint Moment::time() const {
  if (!mark_) return time_;
  if (!mark_->is_final()) {
    const Lock lock(mark_->schedule().mutex);
    mark_->schedule().place_all();
    if (!mark_->has_time()) return TimePoint::max();
  }
  return std::max(time_, mark_->time());
}

bool Moment::is_open() const {
  if (!mark_ || mark_->is_final()) return false;
  const Lock lock(mark_->schedule().mutex);
  mark_->schedule().place_all();
  return !mark_->has_time();
}

void Moment::wait(sim::Clock& clock) const {
  while (true) {
    const std::uint32_t seen = news();
    if (is_over(clock.now())) return;
    wait_for_news(clock, seen, TimePoint::max());
  }
}

std::uint32_t Moment::news() const {
  return !mark_ || mark_->is_final() ? 0 : mark_->schedule().news.count();
}

void Moment::wake_waiters() const {
  if (mark_ && !mark_->is_final()) mark_->schedule().news.tell();
}

void Moment::wait_for_news(sim::Clock& clock, std::uint32_t seen, TimePoint deadline) const {
  if (!mark_ || mark_->is_final()) return clock.wait_until(std::min(deadline, time()));
  Schedule& schedule = mark_->schedule();
  const TimePoint now = clock.now();
  Duration early = clock.lead();
  TimePoint next = TimePoint::max();
  std::optional<News::Waiting> waiting;
  {
    const Lock lock(schedule.mutex);
    schedule.advance(now);
    schedule.place_all();
    const Mark* const round = Schedule::round_before(*mark_.get());
    waiting.emplace(schedule.news, round);
    const Schedule::NextLook look = schedule.plan_wait(now, round);
    if (mark_->has_time()) next = std::max(time_, mark_->time());
    // An end that has no time may come from outside at any time.
    const bool nothing_comes_earlier = mark_->has_time() && !look.listens && look.time >= next;
    // Work after a round may put off work that this end depends on, and so make the end earlier.
    next = std::min(next, look.time);
    const bool is_soon = !look.listens && next <= saturating_add(now, early);
    if (nothing_comes_earlier || is_soon) waiting.reset();
    const Duration early_look = kLeadsOfEarlyLook * early;
    if (!mark_->has_time() && next > saturating_add(now, early_look + early)) early = early_look;
  }
  if (!waiting) return clock.wait_until(std::min(next, deadline));
  if (next != TimePoint::max()) next -= early;
  waiting->wait(clock, seen, std::min(next, deadline));
}

}  // namespace gpemu::device
