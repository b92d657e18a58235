// SPDX-License-Identifier: Apache-2.0
#include "timed_wait.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace gpemu::shim {
namespace {

using sim::ClockPage;
using sim::TimedWait;
using sim::WaitKind;

using ReadClock = int (*)(clockid_t, timespec*);
using SystemCall = long (*)(long, ...);

/// The variables that the thread's wake signal changes.
struct Woken {
  timespec* host_time;
  volatile sig_atomic_t told;
};
thread_local Woken woken;

ReadClock read_clock() {
  static const auto real = reinterpret_cast<ReadClock>(::dlsym(RTLD_NEXT, "clock_gettime"));
  return real;
}

SystemCall system_call() {
  static const auto real = reinterpret_cast<SystemCall>(::dlsym(RTLD_NEXT, "syscall"));
  return real;
}

void on_wake_signal(int /*signal*/) {
  woken.told = 1;
  if (woken.host_time != nullptr) *woken.host_time = {};
}

/// Maps the page that GPEMU_CLOCK_PAGE names: "OFFSET:FILE".
ClockPage* map_page() {
  const char* const place = ::getenv("GPEMU_CLOCK_PAGE");
  if (place == nullptr) return nullptr;
  char* file = nullptr;
  const unsigned long long offset = ::strtoull(place, &file, 10);
  if (*file != ':') return nullptr;
  const int saved = errno;
  const int opened = ::open(file + 1, O_RDWR | O_CLOEXEC);
  void* memory = MAP_FAILED;
  const auto end = static_cast<off_t>(offset + sizeof(ClockPage));
  if (opened >= 0 && ::lseek(opened, 0, SEEK_END) >= end) {
    memory = ::mmap(nullptr, sizeof(ClockPage), PROT_READ | PROT_WRITE, MAP_SHARED, opened,
                    static_cast<off_t>(offset));
  }
  if (opened >= 0) ::close(opened);
  errno = saved;
  if (memory == MAP_FAILED) return nullptr;
  // A program that handles this signal itself wakes late, as without skipping.
  struct sigaction old{}, wake{};
  wake.sa_handler = on_wake_signal;
  wake.sa_flags = SA_RESTART;
  if (::sigaction(sim::kWakeSignal, nullptr, &old) == 0 && old.sa_handler == SIG_DFL) {
    ::sigaction(sim::kWakeSignal, &wake, nullptr);
  }
  return static_cast<ClockPage*>(memory);
}

void ring(ClockPage& page) {
  system_call()(SYS_futex, &page.published, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

TimedWait* begin(ClockPage& page, WaitKind kind, std::int64_t until_ns) {
  if (page.skipping.load() == 0) return nullptr;
  return sim::publish(page, ::gettid(), kind, until_ns, [&page] { ring(page); });
}

}  // namespace

ClockPage* page() {
  // Other libraries ask for the time before constructors of this one run.
  static ClockPage* const mapped = map_page();
  return mapped;
}

namespace {
[[maybe_unused]] __attribute__((constructor)) void map_at_start() {
  static_cast<void>(page());
}
}  // namespace

std::int64_t host_now(clockid_t clock) {
  timespec time{};
  read_clock()(clock, &time);
  return to_ns(time);
}

std::int64_t ahead_now() {
  const ClockPage& clock = *page();
  return clock.pace.is_same() ? clock.skipped_ns() : clock.ahead_ns(host_now());
}

std::int64_t node_now() {
  const std::int64_t host = host_now();
  return host + page()->ahead_ns(host);
}

Deadline deadline_at(clockid_t clock, std::int64_t node_ns) {
  // In this order: what passes between the two makes the time late, not early.
  const std::int64_t ahead = ahead_now();
  const std::int64_t now = host_now(clock);
  const std::int64_t left = node_ns - ahead - now;
  return {.left_ns = left, .host_ns = later(now, left <= 0 ? left : page()->pace.to_host(left))};
}

bool follows(clockid_t clock) {
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_REALTIME_ALARM:
    case CLOCK_BOOTTIME_ALARM:
    case CLOCK_TAI:
      return true;
    default:
      return false;
  }
}

int sleep_until(ClockPage& page, std::int64_t until_ns) {
  TimedWait* const wait = begin(page, WaitKind::kSleep, until_ns);
  std::atomic<std::uint32_t> nobody{0};
  std::atomic<std::uint32_t>& word = wait == nullptr ? nobody : wait->woken;
  int result = 0;
  const int saved = errno;
  while (true) {
    const std::uint32_t seen = word;
    const std::uint64_t skipped_us = page.skipped_us();
    if (wait != nullptr) wait->armed_us = skipped_us;
    const std::int64_t host_time = page.host_time(until_ns, skipped_us);
    if (host_now() >= host_time) break;
    const timespec until = to_timespec(host_time);
    const long error = system_call()(SYS_futex, &word, FUTEX_WAIT_BITSET, seen, &until, nullptr,
                                     FUTEX_BITSET_MATCH_ANY);
    if (error != 0 && errno == EINTR) {
      result = EINTR;
      break;
    }
  }
  errno = saved;
  if (wait != nullptr) sim::withdraw(page, *wait);
  return result;
}

WaitInCall::WaitInCall(ClockPage& page, std::int64_t until_ns, timespec* host_time)
    : page_(page), until_ns_(until_ns) {
  sigset_t wake;
  ::sigemptyset(&wake);
  ::sigaddset(&wake, sim::kWakeSignal);
  // If the call itself opens the mask, the signal cannot come before it.
  ::pthread_sigmask(host_time == nullptr ? SIG_BLOCK : SIG_UNBLOCK, &wake, &old_mask_);
  open_mask_ = old_mask_;
  ::sigdelset(&open_mask_, sim::kWakeSignal);
  woken.told = 0;
  woken.host_time = host_time;
  wait_ = begin(page, WaitKind::kTimeout, until_ns);
  had_blocked_ = ::sigismember(&old_mask_, sim::kWakeSignal) == 1;
}

WaitInCall::~WaitInCall() {
  const int saved = errno;
  if (wait_ != nullptr) {
    TimedWait& wait = *wait_;
    wait.until_ns = sim::kNotYet;
    // A signal that is being sent now reaches the thread here, not in one of the program's calls.
    for (int i = 0; wait.signalling.load() != 0 && i < 1000; ++i) {
      const timespec moment{.tv_sec = 0, .tv_nsec = 1000};
      system_call()(SYS_nanosleep, &moment, nullptr);
    }
    sim::withdraw(page_, wait);
  }
  ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  woken.host_time = nullptr;
  errno = saved;
}

std::int64_t WaitInCall::host_time_left() const {
  const std::uint64_t skipped_us = page_.skipped_us();
  if (wait_ != nullptr) wait_->armed_us = skipped_us;
  if (until_ns_ == kForever) return kForever;
  const std::int64_t left = page_.host_time(until_ns_, skipped_us) - host_now();
  return left < 0 ? 0 : left;
}

bool WaitInCall::is_over() const {
  return woken.told != 0 && node_now() >= until_ns_;
}

}  // namespace gpemu::shim

GPEMU_CLOCK_EXPORT int gpemu_host_clock_gettime(clockid_t clock, timespec* time) {
  return gpemu::shim::read_clock()(clock, time);
}

GPEMU_CLOCK_EXPORT long gpemu_host_futex(void* word, int operation, unsigned value,
                                         const timespec* time) {
  return gpemu::shim::system_call()(SYS_futex, word, operation, value, time, nullptr,
                                    FUTEX_BITSET_MATCH_ANY);
}
