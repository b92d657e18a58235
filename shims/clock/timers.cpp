// SPDX-License-Identifier: Apache-2.0
// Timers of the kernel run in the host's time: while one runs, nothing is skipped. Their times are
// translated if the node's host is slower than this one.
#include <atomic>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "timed_wait.hpp"

namespace {

using gpemu::shim::is_valid;
using gpemu::shim::kForever;
using gpemu::shim::kSecond;
using gpemu::shim::node_now;
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
  std::atomic<bool> counts_cpu_time;  ///< and not the time that passes.
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
    if (!comes_again) until_ns = gpemu::shim::later(node_now(), in_ns);
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
  return to_ns(timespec{.tv_sec = time.tv_sec, .tv_nsec = time.tv_usec * 1000});
}

/// Translates a time that is left, for the host or for the node. Invalid ones stay as they are.
timespec to_host(const timespec& time) {
  return is_valid(time) ? to_timespec(page()->pace.to_host(to_ns(time))) : time;
}
timespec to_node(const timespec& time) {
  return to_timespec(page()->pace.to_node(to_ns(time)));
}
timeval to_host(const timeval& time) {
  if (page()->pace.is_same() || time.tv_usec < 0 || time.tv_usec >= 1'000'000) return time;
  const std::int64_t us = (page()->pace.to_host(to_ns(time)) + 999) / 1000;
  return {.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
}
timeval to_node(const timeval& time) {
  const std::int64_t us = page()->pace.to_node(to_ns(time)) / 1000;
  return {.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
}
itimerval to_host(const itimerval& value) {
  return {.it_interval = to_host(value.it_interval), .it_value = to_host(value.it_value)};
}
itimerspec to_host(const itimerspec& value) {
  return {.it_interval = to_host(value.it_interval), .it_value = to_host(value.it_value)};
}
/// For times that the kernel has written, if it has.
template <typename Value>
void to_node(int result, Value* value) {
  if (result != 0 || value == nullptr) return;
  *value = {.it_interval = to_node(value->it_interval), .it_value = to_node(value->it_value)};
}

/// Like to_host() for the time at which a timer ends, on a clock that is not known here: only the
/// time of day is so great.
itimerspec to_host_at(const itimerspec& value) {
  constexpr std::int64_t kTimeOfDay = kSecond * 1'000'000'000;
  itimerspec host_value = to_host(value);
  if (!is_valid(value.it_value)) return host_value;
  const std::int64_t time = to_ns(value.it_value);
  const std::int64_t host_time =
      gpemu::shim::deadline_at(time < kTimeOfDay ? CLOCK_MONOTONIC : CLOCK_REALTIME, time).host_ns;
  host_value.it_value = to_timespec(host_time > 0 ? host_time : 1);
  return host_value;
}

/// Sets or, without `value`, stops the timer that setitimer() and alarm() share.
int set_real_timer(const itimerval* value, itimerval* old) {
  GPEMU_REAL(setitimer);
  int result = 0;
  if (value == nullptr) {
    result = real_setitimer(ITIMER_REAL, nullptr, old);
  } else {
    const itimerval host_value = to_host(*value);
    result = hold(of_alarm, to_ns(value->it_value), to_ns(value->it_interval) != 0,
                  [&] { return real_setitimer(ITIMER_REAL, &host_value, old); });
  }
  to_node(result, old);
  return result;
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

GPEMU_CLOCK_EXPORT int setitimer(__itimer_which_t which, const itimerval* value,
                                 itimerval* old) noexcept {
  GPEMU_REAL(setitimer);
  if (page() == nullptr || which != ITIMER_REAL) return real_setitimer(which, value, old);
  return set_real_timer(value, old);
}

GPEMU_CLOCK_EXPORT int getitimer(__itimer_which_t which, itimerval* value) noexcept {
  GPEMU_REAL(getitimer);
  const int result = real_getitimer(which, value);
  if (page() != nullptr && which == ITIMER_REAL) to_node(result, value);
  return result;
}

GPEMU_CLOCK_EXPORT unsigned alarm(unsigned seconds) noexcept {
  GPEMU_REAL(alarm);
  if (page() == nullptr) return real_alarm(seconds);
  itimerval value{}, old{};
  value.it_value.tv_sec = seconds;
  set_real_timer(&value, &old);
  // Rounded, but not to 0 while the alarm runs. Source: Linux, alarm_setitimer().
  const bool up =
      old.it_value.tv_usec >= 500'000 || (old.it_value.tv_sec == 0 && old.it_value.tv_usec != 0);
  return static_cast<unsigned>(old.it_value.tv_sec) + (up ? 1U : 0U);
}

GPEMU_CLOCK_EXPORT int timer_create(clockid_t clock, sigevent* event, timer_t* timer) noexcept {
  GPEMU_REAL(timer_create);
  const int result = real_timer_create(clock, event, timer);
  if (result != 0 || page() == nullptr) return result;
  Held* const held = place_of(*timer);
  if (held != nullptr) held->counts_cpu_time = !gpemu::shim::follows(clock);
  return result;
}

GPEMU_CLOCK_EXPORT int timer_settime(timer_t timer, int flags, const itimerspec* value,
                                     itimerspec* old) noexcept {
  GPEMU_REAL(timer_settime);
  if (page() == nullptr || value == nullptr) return real_timer_settime(timer, flags, value, old);
  Held* const held = place_of(timer);
  if (held != nullptr && held->counts_cpu_time) {
    return real_timer_settime(timer, flags, value, old);
  }
  const bool runs = to_ns(value->it_value) != 0;
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  const itimerspec host_value = absolute && runs ? to_host_at(*value) : to_host(*value);
  const auto set = [&] { return real_timer_settime(timer, flags, &host_value, old); };
  int result = 0;
  if (held != nullptr) {
    result = hold(*held, runs ? to_ns(value->it_value) : 0,
                  absolute || to_ns(value->it_interval) != 0, set);
  } else {
    // Nothing would end the hold of a timer without a place, so it lasts for ever.
    result = runs ? hold(of_others, 1, true, set) : set();
  }
  to_node(result, old);
  return result;
}

GPEMU_CLOCK_EXPORT int timer_gettime(timer_t timer, itimerspec* value) noexcept {
  GPEMU_REAL(timer_gettime);
  const int result = real_timer_gettime(timer, value);
  if (page() == nullptr) return result;
  const Held* const held = place_of(timer);
  if (held == nullptr || !held->counts_cpu_time) to_node(result, value);
  return result;
}

GPEMU_CLOCK_EXPORT int timer_delete(timer_t timer) noexcept {
  GPEMU_REAL(timer_delete);
  const auto end = [&] { return real_timer_delete(timer); };
  Held* const held = page() == nullptr ? nullptr : place_of(timer);
  if (held == nullptr) return end();
  const int result = hold(*held, 0, false, end);
  held->counts_cpu_time = false;
  held->timer = 0;
  return result;
}

// A thread that waits for a running one counts as computing.
GPEMU_CLOCK_EXPORT int timerfd_settime(int file, int flags, const itimerspec* value,
                                       itimerspec* old) noexcept {
  GPEMU_REAL(timerfd_settime);
  if (page() == nullptr || value == nullptr) return real_timerfd_settime(file, flags, value, old);
  const bool absolute = (flags & TFD_TIMER_ABSTIME) != 0 && to_ns(value->it_value) != 0;
  const itimerspec host_value = absolute ? to_host_at(*value) : to_host(*value);
  const int result = real_timerfd_settime(file, flags, &host_value, old);
  to_node(result, old);
  return result;
}

GPEMU_CLOCK_EXPORT int timerfd_gettime(int file, itimerspec* value) noexcept {
  GPEMU_REAL(timerfd_gettime);
  const int result = real_timerfd_gettime(file, value);
  if (page() != nullptr) to_node(result, value);
  return result;
}
