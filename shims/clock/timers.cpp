// SPDX-License-Identifier: Apache-2.0
// Timers of the kernel run in the host's time: while one runs, nothing is skipped.
#include <atomic>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "timed_wait.hpp"

namespace {

using gpemu::shim::host_now;
using gpemu::shim::kForever;
using gpemu::shim::page;
using gpemu::shim::to_ns;
using gpemu::shim::to_timespec;
using gpemu::sim::TimedWait;

/// A timer of this process, and its place in the page until the timer is over. Then another wait
/// may have the place.
struct Held {
  std::atomic<TimedWait*> wait;
  std::atomic<std::int64_t> until_ns;
  std::atomic<std::uintptr_t> timer;
};
Held of_alarm;
Held of_timers[32];

/// Returns whether a place is still that of the timer. A forked child has no timers; the place is
/// its parent's.
bool is_held(const TimedWait& wait, std::int64_t until_ns) {
  return wait.thread == ::getpid() &&
         wait.kind == static_cast<std::uint32_t>(gpemu::sim::WaitKind::kHold) &&
         wait.until_ns == until_ns;
}

/// Holds the clock until a timer is over. A timer with `in_ns` 0 does not run; a periodic one is
/// never over.
void hold(Held& held, std::int64_t in_ns, bool comes_again) {
  TimedWait* const old = held.wait.exchange(nullptr);
  if (old != nullptr && is_held(*old, held.until_ns)) gpemu::sim::withdraw(*page(), *old);
  if (in_ns == 0) return;
  const std::int64_t now = host_now() + page()->skipped_ns();
  held.until_ns = comes_again ? kForever : gpemu::shim::later(now, in_ns);
  held.wait =
      gpemu::sim::publish(*page(), ::getpid(), gpemu::sim::WaitKind::kHold, held.until_ns, [] {});
}

std::int64_t to_ns(const timeval& time) {
  return time.tv_sec * gpemu::shim::kSecond + time.tv_usec * 1000;
}

void hold_alarm(const itimerval& value) {
  hold(of_alarm, to_ns(value.it_value), to_ns(value.it_interval) != 0);
}

/// Returns the place of a timer. If there are more timers than places, one place is held for ever.
Held& place_of(timer_t timer) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(timer) + 1;
  for (Held& held : of_timers) {
    std::uintptr_t free = 0;
    if (held.timer == wanted || held.timer.compare_exchange_strong(free, wanted)) return held;
  }
  return of_timers[0];
}

}  // namespace

GPEMU_CLOCK_EXPORT unsigned alarm(unsigned seconds) noexcept {
  GPEMU_REAL(alarm);
  const timeval in{.tv_sec = seconds, .tv_usec = 0};
  if (page() != nullptr) hold_alarm({.it_interval = {}, .it_value = in});
  return real_alarm(seconds);
}

GPEMU_CLOCK_EXPORT int setitimer(__itimer_which_t which, const itimerval* value,
                                 itimerval* old) noexcept {
  GPEMU_REAL(setitimer);
  if (page() != nullptr && which == ITIMER_REAL && value != nullptr) hold_alarm(*value);
  return real_setitimer(which, value, old);
}

GPEMU_CLOCK_EXPORT int timer_settime(timer_t timer, int flags, const itimerspec* value,
                                     itimerspec* old) noexcept {
  GPEMU_REAL(timer_settime);
  if (page() == nullptr || value == nullptr) return real_timer_settime(timer, flags, value, old);
  const bool runs = to_ns(value->it_value) != 0;
  // The clock of an absolute time is not known here.
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  hold(place_of(timer), runs ? to_ns(value->it_value) : 0,
       absolute || to_ns(value->it_interval) != 0);
  itimerspec host_value = *value;
  if (absolute && runs) {
    const std::int64_t time = to_ns(value->it_value) - page()->skipped_ns();
    host_value.it_value = to_timespec(time > 0 ? time : 1);
  }
  return real_timer_settime(timer, flags, &host_value, old);
}

GPEMU_CLOCK_EXPORT int timer_delete(timer_t timer) noexcept {
  GPEMU_REAL(timer_delete);
  if (page() != nullptr) {
    Held& held = place_of(timer);
    hold(held, 0, false);
    held.timer = 0;
  }
  return real_timer_delete(timer);
}

// A thread that waits for a running one counts as computing.
GPEMU_CLOCK_EXPORT int timerfd_settime(int file, int flags, const itimerspec* value,
                                       itimerspec* old) noexcept {
  GPEMU_REAL(timerfd_settime);
  if (page() == nullptr || value == nullptr || (flags & TFD_TIMER_ABSTIME) == 0 ||
      to_ns(value->it_value) == 0) {
    return real_timerfd_settime(file, flags, value, old);
  }
  itimerspec host_value = *value;
  const std::int64_t time = to_ns(value->it_value) - page()->skipped_ns();
  host_value.it_value = to_timespec(time > 0 ? time : 1);
  return real_timerfd_settime(file, flags, &host_value, old);
}
