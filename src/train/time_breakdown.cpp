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
  all_reduce += more.all_reduce;
  copy += more.copy;
  fetch_wait += more.fetch_wait;
  prep_wait += more.prep_wait;
  other += more.other;
  return *this;
}

TimeBreakdown& TimeBreakdown::operator-=(const TimeBreakdown& less) {
  compute -= less.compute;
  all_reduce -= less.all_reduce;
  copy -= less.copy;
  fetch_wait -= less.fetch_wait;
  prep_wait -= less.prep_wait;
  other -= less.other;
  return *this;
}

TimeBreakdown StallAccount::add_step(const GpuStep& step, const device::Interval& batch_wait,
                                     const data::BatchWork& work) {
  TimeBreakdown time;
  const device::Interval idle{accounted_until_, std::max(step.forward.start, accounted_until_)};
  // A batch is copied after it was waited for, so these two cannot overlap.
  time.copy = overlap(idle, step.copy);
  const Duration wait = overlap(idle, batch_wait);
  if (work.fetch + work.prep > Duration::zero()) {
    time.fetch_wait = fetch_share(wait, work);
    time.prep_wait = wait - time.fetch_wait;
  }
  time.compute =
      (step.forward.end - step.forward.start) + (step.backward.end - step.backward.start);
  time.all_reduce = step.all_reduce.end - step.all_reduce.start;
  const TimePoint end = std::max(step.end(), accounted_until_);
  time.other = (end - accounted_until_) - time.total();
  accounted_until_ = end;
  time_ += time;
  return time;
}

void StallAccount::finish(TimePoint end) {
  if (end <= accounted_until_) return;
  time_.other += end - accounted_until_;
  accounted_until_ = end;
}

}  // namespace gpemu::train
