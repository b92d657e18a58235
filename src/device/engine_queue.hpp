// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/interval.hpp"

#include "device_sharing.hpp"
#include "segment.hpp"

namespace gpemu::device {

/// The time that this process has on one engine, and what other processes see of it.
///
/// The device's sharing policy says which time that is. Within its own time, the process orders its
/// work as it likes. Thread safety: guarded by the schedule's mutex.
class EngineQueue {
 public:
  EngineQueue(DeviceSharing& sharing, Segment& segment, int device, std::size_t engine)
      : sharing_(&sharing),
        engine_(engine),
        record_(&segment.engines(device)[engine]),
        own_(&segment.own(device)),
        holding_(&segment.own_holding(device)) {}

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
  Turn reserve(TimePoint now, TimePoint earliest, Duration cost);

  DeviceSharing* sharing_;
  std::size_t engine_;
  layout::EngineRecord* record_;    ///< of all processes.
  Segment::OwnUse* own_;            ///< of this process.
  layout::HoldingRecord* holding_;  ///< of this process, for others.
  std::vector<Turn> turns_;         ///< in order of time; no two meet.
  Duration promised_{};
  TimePoint settled_end_{};
};

}  // namespace gpemu::device
