// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "gpemu/base/units.hpp"

namespace gpemu::sim {
class Clock;
}

namespace gpemu::device {

class Schedule;  ///< all that this process has queued, and when it runs.

/// The end of a piece of queued work, shared by all who wait for it. Work that is queued later may
/// still move it, until the work before it has started.
class Mark {
 public:
  explicit Mark(Schedule& schedule, TimePoint time)
      : time_ns_(time.time_since_epoch().count()), schedule_(&schedule) {}

 private:
  friend class MarkReference;
  friend class Moment;
  friend class Schedule;

  [[nodiscard]] TimePoint time() const { return TimePoint(Duration(time_ns_.load())); }

  std::atomic<std::uint32_t> references_{0};
  std::atomic<bool> final_{false};
  bool placed_ = false;  ///< whether the time is that of a place on the engine.
  bool open_ = false;    ///< whether it may wait for a round that had no end when it was made.
  std::atomic<std::int64_t> time_ns_;
  TimePoint start_{};   ///< of the work, if that is placed; then the mark is final.
  Schedule* schedule_;  ///< lives until the mark is final.
};

/// Counts who holds a mark, which ends with the last.
class MarkReference {
 public:
  MarkReference() = default;
  explicit MarkReference(Mark* mark) : mark_(mark) { hold(); }
  MarkReference(const MarkReference& other) : mark_(other.mark_) { hold(); }
  MarkReference(MarkReference&& other) noexcept : mark_(std::exchange(other.mark_, nullptr)) {}
  MarkReference& operator=(MarkReference other) noexcept {
    std::swap(mark_, other.mark_);
    return *this;
  }
  ~MarkReference() { release(); }

  explicit operator bool() const { return mark_ != nullptr; }
  [[nodiscard]] Mark* get() const { return mark_; }
  Mark* operator->() const { return mark_; }

 private:
  void hold() {
    if (mark_ != nullptr) mark_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  void release() {
    if (mark_ != nullptr && mark_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete mark_;
    }
  }

  Mark* mark_ = nullptr;
};

/// A point on this process's timelines: when work that was queued ends, what an event stands for.
///
/// A moment comes when its time has passed and nothing can put it off any more. Thread safety: as a
/// plain value; what it refers to may change at any time.
class Moment {
 public:
  Moment() = default;
  explicit Moment(TimePoint time) : time_(time) {}
  /// The later of a time and a mark.
  Moment(TimePoint time, MarkReference mark) : time_(time), mark_(std::move(mark)) {}

  /// Returns whether it has come at `now`, a time of the clock of the device.
  [[nodiscard]] bool is_over(TimePoint now) const;

  /// Returns when it came or, as long as it has not, when it comes if nothing else is queued; the
  /// last TimePoint if it is open.
  [[nodiscard]] TimePoint time() const;

  /// Returns whether its time is not known because it waits, maybe behind other work, for other
  /// parties at a rendezvous.
  [[nodiscard]] bool is_open() const;

  /// Blocks the calling thread until it has come.
  void wait(sim::Clock& clock) const;

  /// Returns a number that changes when anything happens at a rendezvous for which it may wait.
  [[nodiscard]] std::uint32_t news() const;

  /// Blocks until it may have come, or until something has happened since news() was `seen`, or
  /// until `deadline`; may return before.
  void wait_for_news(sim::Clock& clock, std::uint32_t seen, TimePoint deadline) const;
  /// Has those return who wait for news of this process's moments.
  void wake_waiters() const;

 private:
  friend class Schedule;
  friend class Stream;

  TimePoint time_{};
  MarkReference mark_;
};

}  // namespace gpemu::device
