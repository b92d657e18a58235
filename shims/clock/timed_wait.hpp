// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <dlfcn.h>

#include "gpemu/sim/clock_page.hpp"

/// Makes a program's time functions follow the emulated node's clock.
///
/// Loaded in front of the C library (LD_PRELOAD) into every program under `gpemu run --clock
/// virtual`. docs/design/shared-clock.md has the rules. This code runs in every thread of every
/// program, in signal handlers too: it takes no lock, allocates nothing and calls only the C
/// library. Without a page every function is the C library's.
namespace gpemu::shim {

#define GPEMU_CLOCK_EXPORT extern "C" __attribute__((visibility("default")))

/// The C library's function with a name, which comes after this library's.
#define GPEMU_REAL(name) \
  static auto* const real_##name = reinterpret_cast<decltype(&::name)>(::dlsym(RTLD_NEXT, #name))

inline constexpr std::int64_t kSecond = 1'000'000'000;
inline constexpr std::int64_t kForever = INT64_MAX;

[[nodiscard]] inline std::int64_t later(std::int64_t time, std::int64_t by) {
  return by > kForever - time ? kForever : time + by;
}

/// Returns the page of the clock, or null in a program that does not follow one.
[[nodiscard]] sim::ClockPage* page();

/// Returns a time of the host.
[[nodiscard]] std::int64_t host_now(clockid_t clock = CLOCK_MONOTONIC);
/// Returns how far the node's clocks are ahead of the host's now; the program follows a page.
[[nodiscard]] std::int64_t ahead_now();
/// Returns the time of the node.
[[nodiscard]] std::int64_t node_now();
/// A time of one of the node's clocks: how long it has to go for the node, and which time that
/// clock of the host will have then.
struct Deadline {
  std::int64_t left_ns;  ///< not positive: the time has come.
  std::int64_t host_ns;
};
[[nodiscard]] Deadline deadline_at(clockid_t clock, std::int64_t node_ns);
/// Returns whether a clock gives the time of day or since boot, not CPU time.
[[nodiscard]] bool follows(clockid_t clock);

[[nodiscard]] inline std::int64_t to_ns(const timespec& time) {
  // More than 290 years count as for ever.
  if (time.tv_sec > kForever / kSecond - 1) return kForever;
  return time.tv_sec * kSecond + time.tv_nsec;
}
[[nodiscard]] inline timespec to_timespec(std::int64_t ns) {
  if (ns < 0) ns = 0;
  return {.tv_sec = ns / kSecond, .tv_nsec = static_cast<long>(ns % kSecond)};
}
[[nodiscard]] inline bool is_valid(const timespec& time) {
  return time.tv_sec >= 0 && time.tv_nsec >= 0 && time.tv_nsec < kSecond;
}

/// Sleeps until a time of the node; returns 0, or EINTR if a signal ended the sleep.
[[nodiscard]] int sleep_until(sim::ClockPage& page, std::int64_t until_ns);

/// While this object exists, the thread waits for something, at the latest until a time of the
/// node.
///
/// When that time has come because of a skip, which the kernel does not know, the thread gets
/// kWakeSignal: it ends a waiting system call and sets `*host_time`, if given, to a time in the
/// past.
class WaitInCall {
 public:
  WaitInCall(sim::ClockPage& page, std::int64_t until_ns, timespec* host_time);
  WaitInCall(const WaitInCall&) = delete;
  WaitInCall& operator=(const WaitInCall&) = delete;
  ~WaitInCall();

  /// Returns how long the host must wait; to be called shortly before the wait.
  [[nodiscard]] std::int64_t host_time_left() const;
  /// Returns whether the time has come and the thread was woken for it.
  [[nodiscard]] bool is_over() const;
  /// The signals that the thread had blocked before, without kWakeSignal.
  [[nodiscard]] const sigset_t& open_mask() const { return open_mask_; }

 private:
  sim::ClockPage& page_;
  std::int64_t until_ns_;
  sim::TimedWait* wait_;
  sigset_t old_mask_, open_mask_;
  bool had_blocked_;
};

}  // namespace gpemu::shim

/// For libgpemu.so, which follows the page by itself: the host's time, and a wait on a futex until
/// a time of the host.
GPEMU_CLOCK_EXPORT int gpemu_host_clock_gettime(clockid_t clock, timespec* time);
GPEMU_CLOCK_EXPORT long gpemu_host_futex(void* word, int operation, unsigned value,
                                         const timespec* time);
