// SPDX-License-Identifier: Apache-2.0
#include "gpemu/sim/clock.hpp"

#include <cerrno>
#include <ctime>
#include <limits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host_time.hpp"

namespace gpemu::sim {
namespace {

void sleep_until(TimePoint deadline) {
  const timespec target = to_timespec(deadline);
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &target, nullptr) == EINTR) {
  }
}

/// Sleeps until the word changes and somebody wakes, or until `deadline` unless that is the last.
void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen, TimePoint deadline) {
  const timespec until = to_timespec(deadline);
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, seen,
            deadline == TimePoint::max() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

}  // namespace

TimePoint RealClock::now() const {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return at_ns(static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec);
}

void RealClock::wait_until(TimePoint deadline) {
  TimePoint start = now();
  if (deadline > start + spin_) {
    minimise_timer_slack();
    sleep_until(deadline - spin_);
    start = now();
  }
  if (start >= deadline) return;
  spin_until(*this, deadline);
  spun_ns_.fetch_add((now() - start).count(), std::memory_order_relaxed);
}

void RealClock::wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                                TimePoint deadline) {
  minimise_timer_slack();
  if (word.load() == seen) sleep_on(word, seen, deadline);
}

void VirtualClock::wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                                   TimePoint deadline) {
  if (word.load() != seen) return;
  if (deadline != TimePoint::max()) return wait_until(deadline);
  sleep_on(word, seen, deadline);
}

void wake_all(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

void VirtualClock::wait_until(TimePoint deadline) {
  const std::int64_t target = to_ns(deadline);
  std::int64_t current = now_ns_.load(std::memory_order_acquire);
  while (current < target && !now_ns_.compare_exchange_weak(current, target)) {
  }
}

}  // namespace gpemu::sim
