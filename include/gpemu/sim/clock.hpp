// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "gpemu/base/units.hpp"

namespace gpemu::sim {

/// Reads the time and waits for it. All code that emulates time takes a clock, so that the same
/// code runs in real time and in virtual time.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  /// Returns the current time. Never goes back.
  [[nodiscard]] virtual TimePoint now() const = 0;

  /// Blocks the calling thread until `deadline`; returns at once if it has passed.
  virtual void wait_until(TimePoint deadline) = 0;

  /// Blocks the calling thread until `deadline`, or until somebody has changed `word` from `seen`
  /// and called wake_all. May return earlier or later. `word` may be in shared memory.
  virtual void wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                               TimePoint deadline) = 0;

  /// Returns whether time passes even if nobody waits.
  [[nodiscard]] virtual bool runs_by_itself() const = 0;

  /// Returns how long before a deadline a thread must wake up so as not to be late; 0 for a clock
  /// that is never late.
  [[nodiscard]] virtual Duration lead() const { return Duration::zero(); }

  /// Returns the host CPU time that all waits have spent spinning; 0 for a clock that never spins.
  [[nodiscard]] virtual Duration spun() const { return Duration::zero(); }
};

/// Wakes all threads that wait for a change of that word, in any process.
void wake_all(const std::atomic<std::uint32_t>& word);

/// The host's CLOCK_MONOTONIC, one axis for all processes of the host.
///
/// A wait sleeps until shortly before the absolute deadline, with the thread's timer slack at its
/// minimum, and then spins, so a wake-up that is a little late does no harm. Lateness never adds
/// up, because deadlines come from the ledger and not from the time of the wake-up. Thread safety:
/// any thread.
class RealClock final : public Clock {
 public:
  /// How long before a deadline a waiting thread stops sleeping and spins. Source: wake-ups of an
  /// idle Linux host are late by up to about 50 us.
  static constexpr Duration kDefaultSpin = std::chrono::microseconds(60);

  /// With a `spin` of zero, waits only sleep: for hosts that are short of cores.
  explicit RealClock(Duration spin = kDefaultSpin) : spin_(spin) {}

  [[nodiscard]] TimePoint now() const override;
  void wait_until(TimePoint deadline) override;
  void wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                       TimePoint deadline) override;
  [[nodiscard]] bool runs_by_itself() const override { return true; }
  [[nodiscard]] Duration lead() const override { return spin_; }

  [[nodiscard]] Duration spun() const override {
    return Duration(spun_ns_.load(std::memory_order_relaxed));
  }

 private:
  Duration spin_;
  std::atomic<std::int64_t> spun_ns_{0};
};

/// A clock that stands still until somebody waits, and then jumps to the deadline. Starts at zero.
///
/// With one thread, the run is deterministic. With several threads, the time is the latest deadline
/// for which any of them waited. Thread safety: any thread.
class VirtualClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override {
    return at_ns(now_ns_.load(std::memory_order_acquire));
  }
  void wait_until(TimePoint deadline) override;
  /// Jumps to the deadline if there is one before the last TimePoint.
  void wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                       TimePoint deadline) override;
  [[nodiscard]] bool runs_by_itself() const override { return false; }

 private:
  std::atomic<std::int64_t> now_ns_{0};
};

}  // namespace gpemu::sim
