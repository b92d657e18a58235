// SPDX-License-Identifier: Apache-2.0
#include "gpemu/sim/shared_clock.hpp"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpemu::sim {
namespace {

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

timespec to_timespec(TimePoint time) {
  const auto ns = time.time_since_epoch().count();
  return {.tv_sec = static_cast<time_t>(ns / 1'000'000'000),
          .tv_nsec = static_cast<long>(ns % 1'000'000'000)};
}

void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* time) {
  static const auto call = of_host<Futex>("gpemu_host_futex", &call_futex);
  call(&word, operation, value, time);
}

}  // namespace

SharedClock::SharedClock(ClockPage& page, Duration spin)
    : page_(page), spin_(spin), read_(clock_of_host()) {}

TimePoint SharedClock::host_now() const {
  timespec time{};
  read_(CLOCK_MONOTONIC, &time);
  return TimePoint(Duration(static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec));
}

TimePoint SharedClock::now() const {
  return host_now() + Duration(page_.skipped_ns());
}

void SharedClock::sleep_until(TimePoint time) {
  // The default slack of 50 us would make every sleep late by as much.
  thread_local const bool done = ::prctl(PR_SET_TIMERSLACK, 1UL) == 0;
  static_cast<void>(done);
  TimedWait* const wait =
      page_.skipping.load() == 0
          ? nullptr
          : publish(page_, ::gettid(), WaitKind::kSleep, time.time_since_epoch().count(),
                    [this] { futex(page_.published, FUTEX_WAKE, 1, nullptr); });
  std::atomic<std::uint32_t> nobody{0};
  while (true) {
    std::atomic<std::uint32_t>& woken = wait == nullptr ? nobody : wait->woken;
    const std::uint32_t seen = woken;
    const std::uint64_t skipped_us = page_.skipped_us();
    const TimePoint host_time = time - std::chrono::microseconds(skipped_us);
    if (wait != nullptr) wait->armed_us = skipped_us;
    if (host_now() >= host_time) break;
    const timespec until = to_timespec(host_time);
    futex(woken, FUTEX_WAIT_BITSET, seen, &until);
  }
  if (wait != nullptr) withdraw(page_, *wait);
}

void SharedClock::wait_until(TimePoint deadline) {
  if (deadline > now() + spin_) sleep_until(deadline - spin_);
  while (now() < deadline) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

}  // namespace gpemu::sim
