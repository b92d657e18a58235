// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpemu/base/saturate.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/interval.hpp"

#include "device_sharing.hpp"
#include "layout.hpp"

namespace gpemu::device {

/// When an engine does a piece of work, as far as is known.
struct Service {
  TimePoint start;
  TimePoint end;
  Duration busy;  ///< as QueuedWork::busy.
};

/// The time that this process has on one engine, and what other processes see of it.
///
/// The device's sharing policy says which time that is. Within its own time, the process orders its
/// work as it likes. Thread safety: guarded by the schedule's mutex.
class EngineQueue {
 public:
  /// `engine`: of the device. `record`: the engine's, which all processes change. `own`: what
  /// others see of this process on it.
  EngineQueue(DeviceSharing& sharing, std::size_t engine, layout::EngineRecord& record,
              layout::HoldingRecord::Use& own)
      : sharing_(&sharing), engine_(engine), record_(&record), holding_(&own) {}

  /// Counts queued work, with the engine time that it takes.
  void count(Duration busy, Bytes bytes) {
    layout::CountRecord& queued = holding_->queued;
    busy_ns_ = saturating_add(busy_ns_, busy.count());
    queued.busy_ns.store(busy_ns_, std::memory_order_relaxed);
    queued.operations.store(++operations_, std::memory_order_relaxed);
    bytes_ += bytes;
    queued.bytes.store(bytes_, std::memory_order_relaxed);
  }

  /// Takes back the last pieces of work that were counted, but not their time: they are parts of
  /// one.
  void count_again(std::uint64_t pieces) {
    operations_ -= pieces;
    holding_->queued.operations.store(operations_, std::memory_order_relaxed);
  }

  /// Adds to the work that is counted and has not started.
  void add_unstarted(Duration busy);

  /// Reserves the time that work which has not started may lack if it can start as demanded.
  /// Requires: earliest >= now.
  void reserve_for(TimePoint now, const Demand& demand);

  /// Returns whether other processes can move the time that this process has been given.
  [[nodiscard]] bool moves() const { return moves_; }
  /// Asks the policy again whether they can.
  void note_sharing() { moves_ = sharing_->moves(engine_); }
  /// Returns whether other processes have changed anything since the last update.
  [[nodiscard]] bool has_news() const { return sharing_->has_news(engine_); }
  /// Follows what other processes have changed. Returns whether work may have moved.
  bool update(TimePoint now) { return sharing_->update(now, unstarted_, turns_); }

  /// Returns when work runs that may start at `from`. Reserves missing time. Inline, as far as most
  /// launches get.
  [[gnu::always_inline]] Service serve(TimePoint now, TimePoint from, Duration cost) {
    if (moves_ || (!turns_.empty() && from < turns_.back().end)) {
      return serve_by_turns(now, from, cost);
    }
    const Reservation time = reserve(now, from, cost);
    const TimePoint start = std::max(time.start, from);
    const TimePoint end = std::min(time.end, saturating_add(start, cost));
    return {.start = start, .end = end, .busy = end - start};
  }

  /// Returns whether work of this process that has not started has no work of other processes
  /// before it.
  [[nodiscard]] bool is_alone(TimePoint now) const;

  /// Returns the first time, not before `from`, that this process has or will have.
  [[nodiscard]] TimePoint next_turn(TimePoint now, TimePoint from);

  /// Adds this process's turns between two times.
  void add_turns(TimePoint start, TimePoint end, std::vector<Turn>& turns) const {
    for (const Turn& turn : turns_) {
      const Turn part{
          .start = std::max(turn.start, start), .end = std::min(turn.end, end), .pace = turn.pace};
      if (part.start < part.end) turns.push_back(part);
    }
  }

  /// Notes when work runs. From now on, nothing is served before its start.
  void settle(TimePoint start, TimePoint end) {
    settled_end_ = std::max(settled_end_, end);
    // Compares addresses, because the size would take a division.
    while (!turns_.empty() && &turns_.front() != &turns_.back() && turns_.front().end <= start) {
      turns_.erase(turns_.begin());
    }
  }

  /// Takes work that runs between two times out of the gaps that other processes see in the
  /// timeline.
  void fill_gaps(TimePoint now, TimePoint start, TimePoint end, Duration busy);

 private:
  /// Gets more time on the engine.
  [[gnu::always_inline]] Reservation reserve(TimePoint now, TimePoint earliest, Duration cost) {
    const Reservation time = sharing_->reserve(engine_, now, earliest, cost);
    if (!turns_.empty() && turns_.back().end == time.start && turns_.back().pace == Pace{}) {
      turns_.back().end = time.end;
    } else {
      turns_.push_back({.start = time.start, .end = time.end});
    }
    return time;
  }
  /// Lets work of that cost go on in a time.
  static void use(const Reservation& time, Duration cost, Service& interval) {
    const TimePoint start = std::max(time.start, interval.end);
    const TimePoint end = std::min(time.end, saturating_add(start, cost - interval.busy));
    if (start > end) return;
    if (interval.busy == Duration::zero()) interval.start = start;
    interval.end = end;
    interval.busy += end - start;
  }
  Service serve_by_turns(TimePoint now, TimePoint from, Duration cost);
  Service serve_moving(TimePoint now, TimePoint from, Duration cost);

  DeviceSharing* sharing_;
  std::size_t engine_;
  layout::EngineRecord* record_;         ///< of all processes.
  layout::HoldingRecord::Use* holding_;  ///< of this process, for others; the originals follow.
  std::int64_t busy_ns_ = 0;
  std::uint64_t operations_ = 0;
  Bytes bytes_ = 0;
  std::vector<Turn> turns_;  ///< in order of time; those at full pace do not meet.
  Duration unstarted_{};
  TimePoint settled_end_{};
  bool moves_ = false;
};

}  // namespace gpemu::device
