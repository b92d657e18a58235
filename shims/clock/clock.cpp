// SPDX-License-Identifier: Apache-2.0
// Telling the time, and sleeping.
#include <sys/time.h>
#include <unistd.h>

#include "timed_wait.hpp"

namespace {

using gpemu::shim::follows;
using gpemu::shim::host_now;
using gpemu::shim::kSecond;
using gpemu::shim::page;
using gpemu::shim::to_ns;
using gpemu::shim::to_timespec;

std::int64_t node_now() {
  return host_now() + page()->skipped_ns();
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
  if (error == 0 && page() != nullptr && follows(clock)) {
    *time = to_timespec(to_ns(*time) + page()->skipped_ns());
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
    const std::int64_t us = result->tv_sec * 1'000'000 + result->tv_usec +
                            static_cast<std::int64_t>(page()->skipped_us());
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
  std::int64_t duration = to_ns(*time);
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  if (absolute) duration -= host_now(clock) + page()->skipped_ns();
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
