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

class Schedule;  ///< all work that this process has queued, and when it runs.

/// The end of a piece of queued work, shared by everything that waits for it. Work that is queued
/// later may still move it, until the work itself has started.
class Mark {
 public:
  explicit Mark(Schedule& schedule, TimePoint time)
      : time_ns_(time.time_since_epoch().count()), schedule_(&schedule) {}

 private:
  friend class MarkReference;
  friend class Moment;
  friend class Schedule;
  friend class Timeline;

  [[nodiscard]] TimePoint time() const { return TimePoint(Duration(time_ns_.load())); }

  std::atomic<std::uint32_t> references_{0};
  std::atomic<bool> final_{false};
  bool placed_ = false;  ///< whether the work has a place on the engine, which gives the time.
  bool open_ = false;    ///< whether it may wait for a round that had no end when it was made.
  std::atomic<std::int64_t> time_ns_;
  TimePoint start_{};   ///< of the work, if it is placed; then the mark is final.
  Schedule* schedule_;  ///< lives until the mark is final.
};

/// Counts the references to a mark. The last one to go deletes it.
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

/// A point on this process's timelines: the end of queued work, or the point for which an event
/// stands.
///
/// A moment has come when its time has passed and nothing can put it off any more. Thread safety:
/// that of a plain value; the mark to which it refers may change at any time.
class Moment {
 public:
  Moment() = default;
  explicit Moment(TimePoint time) : time_(time) {}
  /// The later of a time and a mark.
  Moment(TimePoint time, MarkReference mark) : time_(time), mark_(std::move(mark)) {}

  /// Returns whether the moment has come at `now`, a time of the device's clock.
  [[nodiscard]] bool is_over(TimePoint now) const;

  /// Returns when the moment came or, if it has not come yet, when it will come if nothing else is
  /// queued; the last TimePoint if it is open.
  [[nodiscard]] TimePoint time() const;

  /// Returns whether the time is unknown because the moment waits, perhaps after other work, for
  /// other parties at a rendezvous.
  [[nodiscard]] bool is_open() const;

  /// Blocks the calling thread until the moment has come.
  void wait(sim::Clock& clock) const;

  /// Returns a number that changes when anything happens at a rendezvous for which the moment may
  /// wait.
  [[nodiscard]] std::uint32_t news() const;

  /// Blocks until the moment may have come, until news() differs from `seen`, or until `deadline`.
  /// May return earlier.
  void wait_for_news(sim::Clock& clock, std::uint32_t seen, TimePoint deadline) const;
  /// Makes all calls of wait_for_news() on this process's moments return.
  void wake_waiters() const;

 private:
  friend class Stream;
  friend class Timeline;

  TimePoint time_{};
  MarkReference mark_;
};

}  // namespace gpemu::device
