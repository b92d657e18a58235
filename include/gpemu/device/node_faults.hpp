// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/base/units.hpp"
#include "gpemu/device/fault_table.hpp"

namespace gpemu::device {

class Schedule;
class Segment;

/// The faults of a node in which this process takes part. Counts what they wait for. The node
/// outlives it. Thread safety: any thread.
class NodeFaults : public FaultTable {
 public:
  NodeFaults(Segment& segment, Schedule& schedule);

  /// Counts a collective that this process asks for on a device: faults may begin with it. Returns
  /// whether the process is to be killed.
  [[nodiscard]] bool count_collective(int device, TimePoint now) const;
  /// The same for a collective that is asked for at a time that may be in the future. Work that is
  /// queued keeps its times.
  void count_collective_ahead(int device, TimePoint time) const;
  /// Counts a kernel that this process launches on a device. Returns whether a fault makes it use
  /// an illegal address.
  [[nodiscard]] bool count_kernel(int device, TimePoint now) const;

 private:
  /// Which faults begin with a collective.
  struct Begun {
    bool any = false, kill = false;
  };
  Begun begin_with_collective(int device, TimePoint time) const;

  Segment& segment_;
  Schedule& schedule_;
};

}  // namespace gpemu::device
