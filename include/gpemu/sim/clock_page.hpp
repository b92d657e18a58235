// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <limits>

/// The part of a node's clock that its processes share: docs/design/shared-clock.md.
///
/// Node time is CLOCK_MONOTONIC plus the time that was skipped. The page is in the node segment, so
/// all of it must be valid with any bytes. The library that is preloaded into programs under
/// `gpemu run` uses it too, so nothing here needs more than the C library.
namespace gpemu::sim {

/// What a thread waits for.
enum class WaitKind : std::uint32_t {
  kSleep,    ///< the time alone, on the futex `TimedWait::woken`.
  kTimeout,  ///< something else, but only until the time; woken by kWakeSignal.
  kHold,     ///< nothing: a kernel timer runs until the time, which must not be skipped.
};

/// Ends system calls that wait. It is ignored by default, so it does not harm a process that it
/// reaches by mistake.
inline constexpr int kWakeSignal = SIGURG;

/// The time of a wait whose end is not published yet: nothing is skipped.
inline constexpr std::int64_t kNotYet = std::numeric_limits<std::int64_t>::min();

/// A wait that ends at a node time at the latest. In a free entry, `thread` is 0.
struct alignas(32) TimedWait {
  std::atomic<std::int32_t> thread;
  std::atomic<std::uint32_t> kind;
  std::atomic<std::int64_t> until_ns;
  /// The time skipped when the thread told the kernel how long to wait. If it is less than the time
  /// skipped now, the kernel would wake the thread too late.
  std::atomic<std::uint64_t> armed_us;
  std::atomic<std::uint32_t> woken;
  /// 1 while a signal is being sent to the thread, so that none reaches it after the wait.
  std::atomic<std::uint32_t> signalling;
};

struct ClockPage {
  static constexpr std::uint32_t kWaits = 1022;
  /// The low bits of `state` are the microseconds skipped; the high bits count the waits that have
  /// ended. A skip fails if a wait has ended since its deadline was read.
  static constexpr int kSkippedBits = 48;
  static constexpr std::uint64_t kSkippedMask = (std::uint64_t{1} << kSkippedBits) - 1;
  static constexpr std::uint64_t kOneEnded = std::uint64_t{1} << kSkippedBits;

  alignas(32) std::atomic<std::uint64_t> state;
  std::atomic<std::uint32_t> skipping;   ///< 1 while a skipper runs; else this is the real clock.
  std::atomic<std::uint32_t> published;  ///< counts waits that began; a futex.
  std::atomic<std::uint32_t> listening;  ///< 1 while somebody sleeps on `published`.
  std::uint32_t unused[11];
  TimedWait waits[kWaits];

  [[nodiscard]] std::uint64_t skipped_us() const { return state.load() & kSkippedMask; }
  [[nodiscard]] std::int64_t skipped_ns() const { return skipped_ns(state.load()); }
  [[nodiscard]] static std::int64_t skipped_ns(std::uint64_t state) {
    return static_cast<std::int64_t>((state & kSkippedMask) * 1000);
  }
};
static_assert(sizeof(TimedWait) == 32 && sizeof(ClockPage) == 32768);

/// Publishes that a thread waits until a node time. Returns null if all entries are taken; the
/// thread then counts as computing. Calls `wake` if somebody listens on `published`.
template <typename Wake>
[[nodiscard]] TimedWait* publish(ClockPage& page, std::int32_t thread, WaitKind kind,
                                 std::int64_t until_ns, Wake wake) {
  constexpr std::uint32_t kTries = 64;
  const auto start = static_cast<std::uint32_t>(thread) * 2654435761U;
  for (std::uint32_t i = 0; i < kTries; ++i) {
    TimedWait& wait = page.waits[(start + i) % ClockPage::kWaits];
    std::int32_t nobody = 0;
    if (!wait.thread.compare_exchange_strong(nobody, thread)) continue;
    wait.kind = static_cast<std::uint32_t>(kind);
    wait.armed_us = page.skipped_us();
    wait.until_ns = until_ns;
    ++page.published;
    if (page.listening.load() != 0) wake();
    return &wait;
  }
  return nullptr;
}

/// Ends a wait. A skip that is about to happen fails.
inline void withdraw(ClockPage& page, TimedWait& wait) {
  page.state += ClockPage::kOneEnded;
  wait.until_ns = kNotYet;
  wait.thread = 0;
}

}  // namespace gpemu::sim
