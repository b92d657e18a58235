// SPDX-License-Identifier: Apache-2.0
#include "gpemu/sim/shared_clock.hpp"

#include <csignal>
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host_time.hpp"

namespace gpemu::sim {
namespace {

/// How often a thread looks whether a signal to it has been sent before it goes on all the same.
constexpr int kMostLooks = 1000;

using ReadClock = int (*)(clockid_t, timespec*);
using Futex = long (*)(void*, int, unsigned, const timespec*);

long call_futex(void* word, int operation, unsigned value, const timespec* time) {
  return ::syscall(SYS_futex, word, operation, value, time, nullptr, FUTEX_BITSET_MATCH_ANY);
}

/// Returns the host's own function: shims/clock, where it is loaded, stands in front of the C
/// library and has it under another name.
template <typename Function>
Function of_host(const char* name, Function otherwise) {
  void* const found = ::dlsym(RTLD_DEFAULT, name);
  return found == nullptr ? otherwise : reinterpret_cast<Function>(found);
}

ReadClock clock_of_host() {
  static const auto read = of_host<ReadClock>("gpemu_host_clock_gettime", &::clock_gettime);
  return read;
}

void futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* time) {
  static const auto call = of_host<Futex>("gpemu_host_futex", &call_futex);
  // Waiting changes nothing.
  call(const_cast<std::atomic<std::uint32_t>*>(&word), operation, value, time);
}

}  // namespace

SharedClock::SharedClock(ClockPage& page, Duration spin)
    : page_(page), spin_(spin), read_(clock_of_host()) {}

TimePoint SharedClock::host_now() const {
  timespec time{};
  read_(CLOCK_MONOTONIC, &time);
  return at_ns(static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec);
}

TimePoint SharedClock::now() const {
  const TimePoint host = host_now();
  return host + Duration(page_.ahead_ns(to_ns(host)));
}

TimedWait* SharedClock::publish_wait(WaitKind kind, TimePoint until) {
  if (page_.skipping.load() == 0) return nullptr;
  return publish(page_, ::gettid(), kind, to_ns(until),
                 [this] { futex(page_.published, FUTEX_WAKE, 1, nullptr); });
}

void SharedClock::wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                                  TimePoint deadline) {
  if (word.load() != seen) return;
  if (deadline == TimePoint::max()) return futex(word, FUTEX_WAIT_BITSET, seen, nullptr);
  minimise_timer_slack();
  // A skip past the deadline ends the wait by a signal. None comes before the thread sleeps: until
  // then it computes.
  sigset_t wake, before;
  ::sigemptyset(&wake);
  ::sigaddset(&wake, kWakeSignal);
  TimedWait* const wait = publish_wait(WaitKind::kTimeout, deadline);
  if (wait != nullptr) ::pthread_sigmask(SIG_UNBLOCK, &wake, &before);
  const std::uint64_t skipped_us = page_.skipped_us();
  if (wait != nullptr) wait->armed_us = skipped_us;
  const timespec until = to_timespec(at_ns(page_.host_time(to_ns(deadline), skipped_us)));
  if (now() < deadline) futex(word, FUTEX_WAIT_BITSET, seen, &until);
  if (wait == nullptr) return;
  wait->until_ns = kNotYet;
  for (int i = 0; wait->signalling.load() != 0 && i < kMostLooks; ++i) ::sched_yield();
  withdraw(page_, *wait);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void SharedClock::sleep_until(TimePoint time) {
  minimise_timer_slack();
  TimedWait* const wait = publish_wait(WaitKind::kSleep, time);
  std::atomic<std::uint32_t> nobody{0};
  while (true) {
    std::atomic<std::uint32_t>& woken = wait == nullptr ? nobody : wait->woken;
    const std::uint32_t seen = woken;
    const std::uint64_t skipped_us = page_.skipped_us();
    const TimePoint host_time = at_ns(page_.host_time(to_ns(time), skipped_us));
    if (wait != nullptr) wait->armed_us = skipped_us;
    if (host_now() >= host_time) break;
    const timespec until = to_timespec(host_time);
    futex(woken, FUTEX_WAIT_BITSET, seen, &until);
  }
  if (wait != nullptr) withdraw(page_, *wait);
}

void SharedClock::wait_until(TimePoint deadline) {
  if (deadline > now() + lead()) sleep_until(deadline - lead());
  if (now() >= deadline) return;
  const TimePoint start = host_now();
  spin_until(*this, deadline);
  spun_ns_.fetch_add((host_now() - start).count(), std::memory_order_relaxed);
}

}  // namespace gpemu::sim
