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
Held of_others;

/// Returns whether a place is still that of the timer. A forked child has no timers; the place is
/// its parent's.
bool is_held(const TimedWait& wait, std::int64_t until_ns) {
  return wait.thread == ::getpid() &&
         wait.kind == static_cast<std::uint32_t>(gpemu::sim::WaitKind::kHold) &&
         wait.until_ns == until_ns;
}

/// Calls `set`, which sets a timer and returns 0, and holds the clock until the timer is over.
/// After another result, the timer runs as before. A timer with `in_ns` 0 does not run; a periodic
/// one is never over.
template <typename Set>
int hold(Held& held, std::int64_t in_ns, bool comes_again, Set set) {
  std::int64_t until_ns = kForever;
  TimedWait* made = nullptr;
  if (in_ns != 0) {
    const std::int64_t now = host_now() + page()->skipped_ns();
    if (!comes_again) until_ns = gpemu::shim::later(now, in_ns);
    made = gpemu::sim::publish(*page(), ::getpid(), gpemu::sim::WaitKind::kHold, until_ns, [] {});
  }
  const int result = set();
  TimedWait* unused = made;
  std::int64_t unused_until_ns = until_ns;
  if (result == 0) {
    unused_until_ns = held.until_ns.exchange(until_ns);
    unused = held.wait.exchange(made);
    if (unused == made) return result;
  }
  if (unused != nullptr && is_held(*unused, unused_until_ns)) {
    gpemu::sim::withdraw(*page(), *unused);
  }
  return result;
}

std::int64_t to_ns(const timeval& time) {
  return time.tv_sec * gpemu::shim::kSecond + time.tv_usec * 1000;
}

template <typename Set>
int hold_alarm(const itimerval& value, Set set) {
  return hold(of_alarm, to_ns(value.it_value), to_ns(value.it_interval) != 0, set);
}

/// Returns the place of a timer, or null if there are more timers than places.
Held* place_of(timer_t timer) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(timer) + 1;
  for (Held& held : of_timers) {
    std::uintptr_t free = 0;
    if (held.timer == wanted || held.timer.compare_exchange_strong(free, wanted)) return &held;
  }
  return nullptr;
}

}  // namespace

GPEMU_CLOCK_EXPORT unsigned alarm(unsigned seconds) noexcept {
  GPEMU_REAL(alarm);
  const timeval in{.tv_sec = seconds, .tv_usec = 0};
  unsigned left = 0;
  const auto set = [&] {
    left = real_alarm(seconds);
    return 0;
  };
  if (page() == nullptr) return real_alarm(seconds);
  hold_alarm({.it_interval = {}, .it_value = in}, set);
  return left;
}

GPEMU_CLOCK_EXPORT int setitimer(__itimer_which_t which, const itimerval* value,
                                 itimerval* old) noexcept {
  GPEMU_REAL(setitimer);
  const auto set = [&] { return real_setitimer(which, value, old); };
  if (page() == nullptr || which != ITIMER_REAL || value == nullptr) return set();
  return hold_alarm(*value, set);
}

GPEMU_CLOCK_EXPORT int timer_settime(timer_t timer, int flags, const itimerspec* value,
                                     itimerspec* old) noexcept {
  GPEMU_REAL(timer_settime);
  if (page() == nullptr || value == nullptr) return real_timer_settime(timer, flags, value, old);
  const bool runs = to_ns(value->it_value) != 0;
  // The clock of an absolute time is not known here.
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  itimerspec host_value = *value;
  if (absolute && runs) {
    const std::int64_t time = to_ns(value->it_value) - page()->skipped_ns();
    host_value.it_value = to_timespec(time > 0 ? time : 1);
  }
  const auto set = [&] { return real_timer_settime(timer, flags, &host_value, old); };
  Held* const held = place_of(timer);
  // Nothing would end the hold of a timer without a place, so it lasts for ever.
  if (held == nullptr) return runs ? hold(of_others, 1, true, set) : set();
  return hold(*held, runs ? to_ns(value->it_value) : 0, absolute || to_ns(value->it_interval) != 0,
              set);
}

GPEMU_CLOCK_EXPORT int timer_delete(timer_t timer) noexcept {
  GPEMU_REAL(timer_delete);
  const auto end = [&] { return real_timer_delete(timer); };
  Held* const held = page() == nullptr ? nullptr : place_of(timer);
  if (held == nullptr) return end();
  const int result = hold(*held, 0, false, end);
  held->timer = 0;
  return result;
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
