// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/interval.hpp"

#include "layout.hpp"

namespace gpemu::device {

class Segment;

/// The time that this process has on one engine, and what other processes see of it.
///
/// A process reserves time after everything that any process has reserved before: first in, first
/// out. Within its own time, it orders its work as it likes. Thread safety: guarded by the
/// schedule's mutex.
class EngineQueue {
 public:
  /// Ends the engine's queue after the last work of living processes, or now if that is later.
  /// `own_tail_ns`: the end of this process's own work.
  using Trim = std::function<void(TimePoint now, std::int64_t own_tail_ns)>;

  /// `engine`: the engine's record, which all processes change. `own`: what others see of this one.
  EngineQueue(layout::EngineRecord& engine, layout::HoldingRecord::Use& own, Trim trim);
  /// Queues on an engine of a segment.
  EngineQueue(Segment& segment, int device, std::size_t engine);

  /// Counts queued work, with the engine time that it takes.
  void count(Duration busy, Bytes bytes);

  /// Adds to the work that is counted and has not started.
  void promise(Duration busy);

  /// Reserves the time that promised work may lack if it can start at `earliest`. Requires:
  /// earliest >= now.
  void reserve_for(TimePoint now, TimePoint earliest, Duration cost);

  /// Returns when work runs that may start at `from`. Reserves missing time.
  Interval serve(TimePoint now, TimePoint from, Duration cost);

  /// Returns the first time, not before `from`, that this process has or will have.
  [[nodiscard]] TimePoint next_turn(TimePoint now, TimePoint from);

  /// Notes when work runs. From now on, nothing is served before its start.
  void settle(TimePoint start, TimePoint end);

  /// Takes work that runs between two times out of the gaps that other processes see in the
  /// timeline.
  void fill_gaps(TimePoint now, TimePoint start, TimePoint end, Duration busy);

 private:
  /// From the end of the others' reservation to the end of this process's own.
  struct Turn {
    TimePoint start;
    TimePoint end;
  };

  void drop_work_of_dead(TimePoint now);
  Turn reserve(TimePoint now, TimePoint earliest, Duration cost);

  layout::EngineRecord* record_;         ///< of all processes.
  layout::HoldingRecord::Use* holding_;  ///< of this process, for others; the originals follow.
  std::int64_t tail_ns_ = 0;
  std::int64_t busy_ns_ = 0;
  std::uint64_t operations_ = 0;
  Bytes bytes_ = 0;
  Trim trim_;
  std::vector<Turn> turns_;  ///< in order of time; no two meet.
  Duration promised_{};
  TimePoint settled_end_{};
  TimePoint looked_for_dead_{};
};

}  // namespace gpemu::device
