// SPDX-License-Identifier: Apache-2.0
// Waiting for file descriptors with a time limit.
#include <cstddef>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/timerfd.h>

#include <climits>

#include "timed_wait.hpp"

namespace {

using gpemu::shim::kForever;
using gpemu::shim::node_now;
using gpemu::shim::page;
using gpemu::shim::to_ns;
using gpemu::shim::to_timespec;
using gpemu::shim::WaitInCall;

constexpr std::int64_t kMillisecond = 1'000'000;

/// Waits by `call`, which gets the host's waiting time and the signals to block; `mask` is the
/// caller's own choice of these, or null.
template <typename Call>
int wait_in(std::int64_t duration, const sigset_t* mask, Call call) {
  const WaitInCall wait(*page(), gpemu::shim::later(node_now(), duration), nullptr);
  sigset_t open = mask == nullptr ? wait.open_mask() : *mask;
  ::sigdelset(&open, gpemu::sim::kWakeSignal);
  const int result = call(wait.host_time_left(), &open);
  // Events at the same moment still count.
  return result < 0 && errno == EINTR && wait.is_over() ? call(0, &open) : result;
}

int to_ms(std::int64_t ns) {
  const std::int64_t ms = ns / kMillisecond + (ns % kMillisecond != 0 ? 1 : 0);
  return ms > INT_MAX ? INT_MAX : static_cast<int>(ms);
}

}  // namespace

GPEMU_CLOCK_EXPORT int ppoll(pollfd* files, nfds_t count, const timespec* time,
                             const sigset_t* mask) {
  GPEMU_REAL(ppoll);
  if (page() == nullptr || time == nullptr || to_ns(*time) <= 0) {
    return real_ppoll(files, count, time, mask);
  }
  return wait_in(to_ns(*time), mask, [&](std::int64_t ns, const sigset_t* open) {
    const timespec limit = to_timespec(ns);
    return real_ppoll(files, count, &limit, open);
  });
}

GPEMU_CLOCK_EXPORT int poll(pollfd* files, nfds_t count, int ms) {
  GPEMU_REAL(poll);
  if (page() == nullptr || ms <= 0) return real_poll(files, count, ms);
  const timespec time = to_timespec(ms * kMillisecond);
  return ppoll(files, count, &time, nullptr);
}

// Programs compiled with size checks call these instead. Source: LSB 5.0.
GPEMU_CLOCK_EXPORT int __poll_chk(pollfd* files, nfds_t count, int ms, std::size_t size) {
  if (size / sizeof *files < count) __builtin_trap();
  return poll(files, count, ms);
}

GPEMU_CLOCK_EXPORT int __ppoll_chk(pollfd* files, nfds_t count, const timespec* time,
                                   const sigset_t* mask, std::size_t size) {
  if (size / sizeof *files < count) __builtin_trap();
  return ppoll(files, count, time, mask);
}

GPEMU_CLOCK_EXPORT int pselect(int count, fd_set* reads, fd_set* writes, fd_set* others,
                               const timespec* time, const sigset_t* mask) {
  GPEMU_REAL(pselect);
  if (page() == nullptr || time == nullptr || to_ns(*time) <= 0) {
    return real_pselect(count, reads, writes, others, time, mask);
  }
  return wait_in(to_ns(*time), mask, [&](std::int64_t ns, const sigset_t* open) {
    const timespec limit = to_timespec(ns);
    return real_pselect(count, reads, writes, others, &limit, open);
  });
}

GPEMU_CLOCK_EXPORT int select(int count, fd_set* reads, fd_set* writes, fd_set* others,
                              timeval* time) {
  GPEMU_REAL(select);
  if (page() == nullptr || time == nullptr || time->tv_sec < 0 || time->tv_usec < 0 ||
      (time->tv_sec == 0 && time->tv_usec == 0)) {
    return real_select(count, reads, writes, others, time);
  }
  const timespec limit{.tv_sec = time->tv_sec + time->tv_usec / 1'000'000,
                       .tv_nsec = time->tv_usec % 1'000'000 * 1000};
  const std::int64_t begin = node_now();
  const int result = pselect(count, reads, writes, others, &limit, nullptr);
  // Linux writes the time left.
  std::int64_t left = to_ns(limit) - (node_now() - begin);
  if (left < 0) left = 0;
  *time = {.tv_sec = left / gpemu::shim::kSecond, .tv_usec = left % gpemu::shim::kSecond / 1000};
  return result;
}

GPEMU_CLOCK_EXPORT int epoll_pwait(int set, epoll_event* events, int count, int ms,
                                   const sigset_t* mask) {
  GPEMU_REAL(epoll_pwait);
  if (page() == nullptr || ms <= 0) return real_epoll_pwait(set, events, count, ms, mask);
  GPEMU_REAL(epoll_pwait2);
  return wait_in(ms * kMillisecond, mask, [&](std::int64_t ns, const sigset_t* open) {
    // On a slower host, a wait of a millisecond is shorter than one.
    if (real_epoll_pwait2 != nullptr && !page()->pace.is_same()) {
      const timespec limit = to_timespec(ns);
      const int result = real_epoll_pwait2(set, events, count, &limit, open);
      if (result >= 0 || errno != ENOSYS) return result;
    }
    return real_epoll_pwait(set, events, count, to_ms(ns), open);
  });
}

GPEMU_CLOCK_EXPORT int epoll_wait(int set, epoll_event* events, int count, int ms) {
  GPEMU_REAL(epoll_wait);
  if (page() == nullptr || ms <= 0) return real_epoll_wait(set, events, count, ms);
  return epoll_pwait(set, events, count, ms, nullptr);
}

GPEMU_CLOCK_EXPORT int epoll_pwait2(int set, epoll_event* events, int count, const timespec* time,
                                    const sigset_t* mask) {
  GPEMU_REAL(epoll_pwait2);
  if (real_epoll_pwait2 == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  if (page() == nullptr || time == nullptr || to_ns(*time) <= 0) {
    return real_epoll_pwait2(set, events, count, time, mask);
  }
  return wait_in(to_ns(*time), mask, [&](std::int64_t ns, const sigset_t* open) {
    const timespec limit = to_timespec(ns);
    return real_epoll_pwait2(set, events, count, &limit, open);
  });
}
