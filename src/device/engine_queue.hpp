// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/interval.hpp"

#include "segment.hpp"

namespace gpemu::device {

/// The time of one engine that this process has, and what others see of it.
///
/// A process reserves time behind all that was reserved before, by whichever process: first in,
/// first out. In which order it does its own work in its own time is its own affair. Thread safety:
/// guarded by the schedule's mutex.
class EngineQueue {
 public:
  EngineQueue(Segment& segment, int device, std::size_t engine)
      : segment_(&segment),
        device_(device),
        engine_(engine),
        record_(&segment.engines(device)[engine]),
        own_(&segment.own(device)),
        holding_(&segment.own_holding(device)) {}

  /// Counts work that is queued, with the time that it takes of the engine.
  void count(Duration busy, Bytes bytes);

  /// Adds to the work that is counted and has not started.
  void promise(Duration busy);

  /// Reserves what promised work that can start at `earliest` may lack. Requires: earliest
  /// >= now.
  void reserve_for(TimePoint now, TimePoint earliest, Duration cost);

  /// Returns when work runs that may start at `from`, with what is missing reserved.
  Interval serve(TimePoint now, TimePoint from, Duration cost);

  /// Returns the first time from `from` on that this process has, or will have.
  [[nodiscard]] TimePoint next_turn(TimePoint now, TimePoint from);

  /// Notes when work runs. Nothing is served before its start from now on.
  void settle(TimePoint start, TimePoint end);

  /// Takes work that runs between two times out of the gaps that others see in the timeline.
  void fill_gaps(TimePoint now, TimePoint start, TimePoint end, Duration busy);

 private:
  /// From where others had reserved until, to where this process has.
  struct Turn {
    TimePoint start;
    TimePoint end;
  };

  void drop_work_of_dead(TimePoint now);
  Turn reserve(TimePoint now, TimePoint earliest, Duration cost);

  Segment* segment_;
  int device_;
  std::size_t engine_;
  layout::EngineRecord* record_;    ///< of all processes.
  Segment::OwnUse* own_;            ///< of this process.
  layout::HoldingRecord* holding_;  ///< of this process, for others.
  std::vector<Turn> turns_;         ///< in order of time; no two meet.
  Duration promised_{};
  TimePoint settled_end_{};
  TimePoint looked_for_dead_{};
};

}  // namespace gpemu::device
