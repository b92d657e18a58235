// SPDX-License-Identifier: Apache-2.0
// Telling the time, and sleeping.
#include <sys/time.h>
#include <unistd.h>

#include "timed_wait.hpp"

namespace {

using gpemu::shim::ahead_now;
using gpemu::shim::follows;
using gpemu::shim::host_now;
using gpemu::shim::kSecond;
using gpemu::shim::node_now;
using gpemu::shim::page;
using gpemu::shim::to_ns;
using gpemu::shim::to_timespec;

/// Returns whether a clock gives the CPU time of a process or a thread. Source: Linux,
/// include/linux/posix-timers.h: negative numbers, whose low bits are 3 for devices.
bool is_cpu_time(clockid_t clock) {
  constexpr clockid_t kDevice = 3;
  return clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID ||
         (clock < 0 && (clock & kDevice) != kDevice);
}

/// Sleeps for a time; returns the time left, 0 unless a signal ended the sleep.
std::int64_t sleep_for(std::int64_t ns) {
  ::pthread_testcancel();
  const std::int64_t until = gpemu::shim::later(node_now(), ns);
  const int error = gpemu::shim::sleep_until(*page(), until);
  ::pthread_testcancel();
  const std::int64_t left = until - node_now();
  return error == 0 || left < 0 ? 0 : left;
}

}  // namespace

GPEMU_CLOCK_EXPORT int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int error = gpemu_host_clock_gettime(clock, time);
  if (error != 0 || page() == nullptr) return error;
  const std::int64_t ns = to_ns(*time);
  if (clock == CLOCK_MONOTONIC) {
    *time = to_timespec(ns + page()->ahead_ns(ns));
  } else if (follows(clock)) {
    *time = to_timespec(ns + ahead_now());
  } else if (is_cpu_time(clock)) {
    *time = to_timespec(page()->pace.to_node(ns));
  }
  return error;
}

GPEMU_CLOCK_EXPORT int gettimeofday(timeval* time, void* zone) noexcept {
  GPEMU_REAL(gettimeofday);
  const int error = real_gettimeofday(time, zone);
  // Declared as never null, but Linux allows it: read so that the compiler cannot rely on that.
  timeval* const volatile given = time;
  timeval* const result = given;
  if (error == 0 && result != nullptr && page() != nullptr) {
    const std::int64_t now = host_now(CLOCK_REALTIME);
    const std::int64_t us = (now + ahead_now()) / 1000;
    *result = {.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
  }
  return error;
}

GPEMU_CLOCK_EXPORT time_t time(time_t* result) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}

GPEMU_CLOCK_EXPORT int timespec_get(timespec* time, int base) noexcept {
  if (base != TIME_UTC || clock_gettime(CLOCK_REALTIME, time) != 0) return 0;
  return base;
}

GPEMU_CLOCK_EXPORT int nanosleep(const timespec* time, timespec* left) {
  GPEMU_REAL(nanosleep);
  if (page() == nullptr || time == nullptr) return real_nanosleep(time, left);
  if (!gpemu::shim::is_valid(*time)) {
    errno = EINVAL;
    return -1;
  }
  const std::int64_t rest = sleep_for(to_ns(*time));
  if (rest == 0) return 0;
  if (left != nullptr) *left = to_timespec(rest);
  errno = EINTR;
  return -1;
}

GPEMU_CLOCK_EXPORT int clock_nanosleep(clockid_t clock, int flags, const timespec* time,
                                       timespec* left) {
  GPEMU_REAL(clock_nanosleep);
  if (page() == nullptr || time == nullptr || !follows(clock)) {
    return real_clock_nanosleep(clock, flags, time, left);
  }
  if (!gpemu::shim::is_valid(*time)) return EINVAL;
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  const std::int64_t duration =
      absolute ? gpemu::shim::deadline_at(clock, to_ns(*time)).left_ns : to_ns(*time);
  if (duration <= 0) return 0;
  const std::int64_t rest = sleep_for(duration);
  if (rest == 0) return 0;
  if (left != nullptr && !absolute) *left = to_timespec(rest);
  return EINTR;
}

GPEMU_CLOCK_EXPORT int usleep(useconds_t us) {
  const timespec time = to_timespec(std::int64_t{us} * 1000);
  return nanosleep(&time, nullptr);
}

GPEMU_CLOCK_EXPORT unsigned sleep(unsigned seconds) {
  GPEMU_REAL(sleep);
  if (page() == nullptr) return real_sleep(seconds);
  const std::int64_t rest = sleep_for(seconds * kSecond);
  return static_cast<unsigned>((rest + kSecond / 2) / kSecond);
}
