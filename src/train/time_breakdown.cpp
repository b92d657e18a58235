// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/time_breakdown.hpp"

#include <algorithm>
#include <cmath>

namespace gpemu::train {
namespace {

Duration overlap(const device::Interval& a, const device::Interval& b) {
  return std::max(std::min(a.end, b.end) - std::max(a.start, b.start), Duration::zero());
}

/// Returns the share of `wait` that reading files is to blame for.
Duration fetch_share(Duration wait, const data::BatchWork& work) {
  const double worked = static_cast<double>((work.fetch + work.prep).count());
  const double share = static_cast<double>(work.fetch.count()) / worked;
  return Duration(std::llround(static_cast<double>(wait.count()) * share));
}

}  // namespace

TimeBreakdown& TimeBreakdown::operator+=(const TimeBreakdown& more) {
  compute += more.compute;
  communication += more.communication;
  copy += more.copy;
  fetch_wait += more.fetch_wait;
  prep_wait += more.prep_wait;
  other += more.other;
  hidden_communication += more.hidden_communication;
  return *this;
}

TimeBreakdown& TimeBreakdown::operator-=(const TimeBreakdown& less) {
  compute -= less.compute;
  communication -= less.communication;
  copy -= less.copy;
  fetch_wait -= less.fetch_wait;
  prep_wait -= less.prep_wait;
  other -= less.other;
  hidden_communication -= less.hidden_communication;
  return *this;
}

TimeBreakdown StallAccount::add_step(const GpuStep& step,
                                     std::span<const device::Interval> exchanges,
                                     const device::Interval& batch_wait,
                                     const data::BatchWork& work) {
  TimeBreakdown time;
  Duration wait{};
  TimePoint now = accounted_until_;
  // A batch is copied after it was waited for, so these two cannot overlap.
  const auto idle_until = [&](TimePoint end) {
    for (const device::Interval& exchange : exchanges) {
      if (exchange.end <= now || exchange.start >= end) continue;
      const device::Interval free{now, std::max(exchange.start, now)};
      time.copy += overlap(free, step.copy);
      wait += overlap(free, batch_wait);
      now = std::min(exchange.end, end);
      time.communication += now - free.end;
    }
    if (now >= end) return;
    time.copy += overlap({now, end}, step.copy);
    wait += overlap({now, end}, batch_wait);
    now = end;
  };
  for (const device::Interval& turn : step.turns) {
    idle_until(turn.start);
    time.compute += turn.end - turn.start;
    now = std::max(now, turn.end);
  }
  for (const device::Interval& exchange : exchanges) {
    time.hidden_communication += exchange.end - exchange.start;
  }
  if (!exchanges.empty()) idle_until(exchanges.back().end);
  time.hidden_communication -= time.communication;
  if (work.fetch + work.prep > Duration::zero()) {
    time.fetch_wait = fetch_share(wait, work);
    time.prep_wait = wait - time.fetch_wait;
  }
  time.other = (now - accounted_until_) - time.total();
  accounted_until_ = now;
  time_ += time;
  return time;
}

void StallAccount::finish(TimePoint end) {
  if (end <= accounted_until_) return;
  time_.other += end - accounted_until_;
  accounted_until_ = end;
}

}  // namespace gpemu::train
