// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "gpemu/base/units.hpp"

namespace gpemu::sim {
class Clock;
}

namespace gpemu::device {

class Schedule;  ///< all work that this process has queued, and when it runs.
struct Ready;    ///< on which rounds a time depends.

/// The end of a piece of queued work, shared by everything that waits for it. Work that is queued
/// later may still move it, until the work itself has started.
///
/// Thread safety: is_final() and schedule() from any thread, and time() once the mark is final; the
/// rest under the schedule's mutex.
class Mark {
 public:
  /// `schedule`: null if nobody looks at the mark except its timeline.
  Mark(Schedule* schedule, TimePoint expected) : time_ns_(to_ns(expected)), schedule_(schedule) {}

  /// Returns the time at which the work ends; only as expected until it has its time.
  [[nodiscard]] TimePoint time() const { return at_ns(time_ns_.load()); }
  /// Returns the time at which the work starts. Requires: it has its time.
  [[nodiscard]] TimePoint start() const { return start_; }
  /// Returns whether the time cannot change any more.
  [[nodiscard]] bool is_final() const { return final_; }
  /// Returns whether the work has its time, which work that is queued later may change.
  [[nodiscard]] bool has_time() const { return final_ || placed_; }
  /// Returns whether the time is unknown because the work waits for rounds.
  [[nodiscard]] bool is_open() const { return open_ && !has_time(); }
  /// Returns how an open mark depends on rounds; null for the end of a round.
  [[nodiscard]] const Ready* ready() const { return ready_.get(); }
  /// Returns whether work of another stream may move it, whatever rounds do.
  [[nodiscard]] bool is_loose() const { return loose_; }
  /// Returns the schedule, which lives until the mark is final.
  [[nodiscard]] Schedule& schedule() const { return *schedule_; }

  /// Notes that the work waits for rounds. `ready`: as ready() returns it.
  void open(std::shared_ptr<const Ready> ready) {
    open_ = true;
    ready_ = std::move(ready);
  }
  void loosen() { loose_ = true; }
  /// Gives the work its time.
  void place(TimePoint start, TimePoint end) {
    start_ = start;
    time_ns_ = to_ns(end);
    placed_ = true;
  }
  /// Takes the work's time away.
  void unplace() { placed_ = false; }
  /// Makes the time final.
  void settle() { final_ = true; }

 private:
  friend class MarkReference;

  std::atomic<std::uint32_t> references_{0};
  std::atomic<bool> final_{false};
  bool placed_ = false;
  bool open_ = false;
  bool loose_ = false;
  std::atomic<std::int64_t> time_ns_;
  TimePoint start_{};
  std::shared_ptr<const Ready> ready_;
  Schedule* schedule_;
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

  /// Returns the time at which the moment came or, if it has not come yet, will come if nothing
  /// else is queued; the last TimePoint if it is open.
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

  void set(TimePoint time) {
    time_ = time;
    if (mark_) mark_ = {};
  }

  TimePoint time_{};
  MarkReference mark_;
};

}  // namespace gpemu::device
