// SPDX-License-Identifier: Apache-2.0
// Waiting for other threads with a time limit.
#include <cstdarg>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>

#include "timed_wait.hpp"

namespace {

using gpemu::shim::ahead_now;
using gpemu::shim::host_now;
using gpemu::shim::node_now;
using gpemu::shim::page;
using gpemu::shim::to_ns;
using gpemu::shim::to_timespec;
using gpemu::shim::WaitInCall;

/// Waits by `call`, which gets a time of the host's clock and returns an error number. It relies on
/// the C library passing the caller's own time to the kernel at each try: changing that time to one
/// in the past ends the wait. If the library did not, the thread would wake later.
template <typename Call>
int wait_until(clockid_t clock, const timespec* time, Call call) {
  if (!gpemu::shim::is_valid(*time)) return call(time);
  const auto [left_ns, host_ns] = gpemu::shim::deadline_at(clock, to_ns(*time));
  timespec host_time = to_timespec(host_ns);
  if (left_ns <= 0) return call(&host_time);
  const WaitInCall wait(*page(), gpemu::shim::later(node_now(), left_ns), &host_time);
  static_cast<void>(wait.host_time_left());
  const int error = call(&host_time);
  return error == EINTR && wait.is_over() ? call(&host_time) : error;
}

/// Returns the clock of a condition variable. Source: nptl, pthread_cond_init.
clockid_t clock_of(const pthread_cond_t* condition) {
  constexpr unsigned kMonotonic = 2;
  return (condition->__data.__wrefs & kMonotonic) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

int as_result(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

using TimedCondition = int (*)(pthread_cond_t*, pthread_mutex_t*, const timespec*);

/// x86-64 has two versions; a look-up without a version finds the one from before NPTL.
TimedCondition real_timed_condition() {
  static const auto real = [] {
    void* const found = ::dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    return reinterpret_cast<TimedCondition>(
        found != nullptr ? found : ::dlsym(RTLD_NEXT, "pthread_cond_timedwait"));
  }();
  return real;
}

}  // namespace

GPEMU_CLOCK_EXPORT int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                              const timespec* time) {
  if (page() == nullptr) return real_timed_condition()(condition, mutex, time);
  return wait_until(clock_of(condition), time, [&](const timespec* host_time) {
    return real_timed_condition()(condition, mutex, host_time);
  });
}

GPEMU_CLOCK_EXPORT int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                              clockid_t clock, const timespec* time) {
  GPEMU_REAL(pthread_cond_clockwait);
  if (page() == nullptr) return real_pthread_cond_clockwait(condition, mutex, clock, time);
  return wait_until(clock, time, [&](const timespec* host_time) {
    return real_pthread_cond_clockwait(condition, mutex, clock, host_time);
  });
}

GPEMU_CLOCK_EXPORT int sem_timedwait(sem_t* semaphore, const timespec* time) {
  GPEMU_REAL(sem_timedwait);
  if (page() == nullptr) return real_sem_timedwait(semaphore, time);
  return as_result(wait_until(CLOCK_REALTIME, time, [&](const timespec* host_time) {
    return real_sem_timedwait(semaphore, host_time) == 0 ? 0 : errno;
  }));
}

GPEMU_CLOCK_EXPORT int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* time) {
  GPEMU_REAL(sem_clockwait);
  if (page() == nullptr) return real_sem_clockwait(semaphore, clock, time);
  return as_result(wait_until(clock, time, [&](const timespec* host_time) {
    return real_sem_clockwait(semaphore, clock, host_time) == 0 ? 0 : errno;
  }));
}

#define GPEMU_TIMED_LOCK(name, type)                                                            \
  GPEMU_CLOCK_EXPORT int name(type* lock, const timespec* time) noexcept {                      \
    GPEMU_REAL(name);                                                                           \
    if (page() == nullptr) return real_##name(lock, time);                                      \
    return wait_until(CLOCK_REALTIME, time,                                                     \
                      [&](const timespec* host_time) { return real_##name(lock, host_time); }); \
  }
#define GPEMU_CLOCK_LOCK(name, type)                                                        \
  GPEMU_CLOCK_EXPORT int name(type* lock, clockid_t clock, const timespec* time) noexcept { \
    GPEMU_REAL(name);                                                                       \
    if (page() == nullptr) return real_##name(lock, clock, time);                           \
    return wait_until(clock, time, [&](const timespec* host_time) {                         \
      return real_##name(lock, clock, host_time);                                           \
    });                                                                                     \
  }

GPEMU_TIMED_LOCK(pthread_mutex_timedlock, pthread_mutex_t)
GPEMU_CLOCK_LOCK(pthread_mutex_clocklock, pthread_mutex_t)
GPEMU_TIMED_LOCK(pthread_rwlock_timedrdlock, pthread_rwlock_t)
GPEMU_CLOCK_LOCK(pthread_rwlock_clockrdlock, pthread_rwlock_t)
GPEMU_TIMED_LOCK(pthread_rwlock_timedwrlock, pthread_rwlock_t)
GPEMU_CLOCK_LOCK(pthread_rwlock_clockwrlock, pthread_rwlock_t)

// std::future and std::atomic wait with this.
GPEMU_CLOCK_EXPORT long syscall(long number, ...) noexcept {
  GPEMU_REAL(syscall);
  va_list rest;
  va_start(rest, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(rest, long);
  va_end(rest);
  const auto call = [&](long fourth, long operation) {
    return real_syscall(number, arguments[0], operation, arguments[2], fourth, arguments[4],
                        arguments[5]);
  };
  const auto* const time = reinterpret_cast<const timespec*>(arguments[3]);
  const long command = arguments[1] & FUTEX_CMD_MASK;
  const bool waits = number == SYS_futex && (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET);
  if (!waits || time == nullptr || page() == nullptr || !gpemu::shim::is_valid(*time)) {
    return call(arguments[3], arguments[1]);
  }
  const bool is_real_time = (arguments[1] & FUTEX_CLOCK_REALTIME) != 0;
  const clockid_t clock = is_real_time ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  timespec end = *time;
  long operation = arguments[1];
  if (command == FUTEX_WAIT) {
    end = to_timespec(gpemu::shim::later(host_now(clock) + ahead_now(), to_ns(*time)));
    operation = (operation & ~static_cast<long>(FUTEX_CMD_MASK)) | FUTEX_WAIT_BITSET;
    arguments[5] = static_cast<long>(FUTEX_BITSET_MATCH_ANY);
  }
  return as_result(wait_until(clock, &end, [&](const timespec* host_time) {
    return call(reinterpret_cast<long>(host_time), operation) == 0 ? 0 : errno;
  }));
}
