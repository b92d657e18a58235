// SPDX-License-Identifier: Apache-2.0
//
// What a moment asks of the schedule.
#include <algorithm>

#include "gpemu/base/saturate.hpp"
#include "gpemu/sim/clock.hpp"

#include "schedule.hpp"

namespace gpemu::device {

bool Moment::is_over(TimePoint now) const {
  if (time_ > now) return false;
  if (!mark_) return true;
  if (!mark_->final_) {
    const Lock lock(mark_->schedule_->mutex);
    mark_->schedule_->advance(now);
    if (!mark_->final_ && !mark_->placed_) return false;
  }
  return mark_->time() <= now;
}

TimePoint Moment::time() const {
  if (!mark_) return time_;
  if (!mark_->final_) {
    const Lock lock(mark_->schedule_->mutex);
    mark_->schedule_->place_all();
    if (!mark_->final_ && !mark_->placed_) return TimePoint::max();
  }
  return std::max(time_, mark_->time());
}

bool Moment::is_open() const {
  if (!mark_ || mark_->final_) return false;
  const Lock lock(mark_->schedule_->mutex);
  mark_->schedule_->place_all();
  return !mark_->final_ && !mark_->placed_;
}

void Moment::wait(sim::Clock& clock) const {
  while (true) {
    const std::uint32_t seen = news();
    if (is_over(clock.now())) return;
    wait_for_news(clock, seen, TimePoint::max());
  }
}

std::uint32_t Moment::news() const {
  return !mark_ || mark_->final_ ? 0 : mark_->schedule_->news.load();
}

void Moment::wake_waiters() const {
  if (mark_ && !mark_->final_) mark_->schedule_->tell_news();
}

void Moment::wait_for_news(sim::Clock& clock, std::uint32_t seen, TimePoint deadline) const {
  if (!mark_ || mark_->final_) return clock.wait_until(std::min(deadline, time()));
  Schedule& schedule = *mark_->schedule_;
  const TimePoint now = clock.now();
  Schedule::NextLook look;
  TimePoint end = TimePoint::max();
  {
    const Lock lock(schedule.mutex);
    schedule.advance(now);
    schedule.place_all();
    look = schedule.next_look(now);
    if (mark_->final_ || mark_->placed_) end = std::max(time_, mark_->time());
  }
  // Work after a round may put off work that this end depends on, and so make the end earlier.
  const Duration precise = clock.runs_by_itself() ? sim::RealClock::kDefaultSpin : Duration();
  const bool may_come_earlier = look.listens || look.time < end;
  if (!may_come_earlier || end <= saturating_add(now, precise)) {
    return clock.wait_until(std::min(end, deadline));
  }
  if (end != TimePoint::max()) end -= precise;
  ++schedule.waiting_for_news;
  clock.wait_for_change(schedule.news, seen, std::min({end, deadline, look.time}));
  --schedule.waiting_for_news;
}

}  // namespace gpemu::device
