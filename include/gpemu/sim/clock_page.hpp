// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <limits>

/// The part of a node's clock that its processes share: docs/design/shared-clock.md.
///
/// Node time is CLOCK_MONOTONIC, made faster by HostPace, plus the time that was skipped. The page
/// is in the node segment, so all of it must be valid with any bytes. The library that is preloaded
/// into programs under `gpemu run` uses it too, so nothing here needs more than the C library.
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

/// How many times slower the node's host is than this one. Since `since_ns`, a time of
/// CLOCK_MONOTONIC, a second of this host is `permille` / 1000 seconds of the node. It is set
/// before the first process uses the page. Times in ns; results are saturated.
struct HostPace {
  static constexpr std::uint32_t kSame = 1000, kSlowest = 100'000;

  std::int64_t since_ns;
  std::uint32_t permille;  ///< less than kSame, as in a fresh page: kSame; at most kSlowest.
  std::uint32_t unused;

  [[nodiscard]] bool is_same() const { return permille <= kSame; }
  /// How much node time passes in a time of this host; it is rounded down.
  [[nodiscard]] std::int64_t to_node(std::int64_t host_ns) const {
    return scaled(host_ns, rate(), kSame, 0);
  }
  /// After how much time of this host a node time has passed; it is rounded up.
  [[nodiscard]] std::int64_t to_host(std::int64_t node_ns) const {
    return scaled(node_ns, kSame, rate(), rate() - 1);
  }
  /// How far the node's clock is ahead at a time of CLOCK_MONOTONIC. It never decreases.
  [[nodiscard]] std::int64_t ahead_ns(std::int64_t host_ns) const {
    if (is_same() || host_ns <= since_ns) return 0;
    return to_node(host_ns - from()) - (host_ns - from());
  }
  /// The time of CLOCK_MONOTONIC from which on the node's clock, without skips, shows a time.
  [[nodiscard]] std::int64_t host_time(std::int64_t node_ns) const {
    if (is_same() || node_ns <= since_ns) return node_ns;
    return from() + to_host(node_ns - from());
  }

 private:
  [[nodiscard]] std::int64_t rate() const {
    return permille <= kSame ? kSame : permille < kSlowest ? permille : kSlowest;
  }
  /// The host has no times before 0.
  [[nodiscard]] std::int64_t from() const { return since_ns > 0 ? since_ns : 0; }
  [[nodiscard]] static std::int64_t scaled(std::int64_t ns, std::int64_t by, std::int64_t parts,
                                           std::int64_t add) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (by == parts || ns <= 0 || ns == kMost) return ns;
    std::int64_t result = 0;
    const bool overflows = __builtin_mul_overflow(ns / parts, by, &result) ||
                           __builtin_add_overflow(result, (ns % parts * by + add) / parts, &result);
    return overflows ? kMost : result;
  }
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
  HostPace pace;
  std::uint32_t unused[6];
  TimedWait waits[kWaits];

  /// Returns how far node time is ahead of CLOCK_MONOTONIC when that is `host_ns`.
  [[nodiscard]] std::int64_t ahead_ns(std::int64_t host_ns) const {
    return skipped_ns() + pace.ahead_ns(host_ns);
  }
  /// Returns the time of CLOCK_MONOTONIC at which node time is `node_ns` if nothing is skipped
  /// beyond `skipped_us`.
  [[nodiscard]] std::int64_t host_time(std::int64_t node_ns, std::uint64_t skipped_us) const {
    return pace.host_time(node_ns - static_cast<std::int64_t>(skipped_us * 1000));
  }

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
