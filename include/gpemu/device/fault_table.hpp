// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/profile/fault_plan.hpp"

namespace gpemu::device {
namespace layout {
struct FaultRecord;  ///< what has come of a fault that begins by count.
}

/// The faults of a node, as far as it is known when they begin. Times are those of the node's
/// clock; the last TimePoint means "not by what is known now".
///
/// Refers to the node or the view that returned it, which outlives it. What the segment says of
/// them is not trusted. Thread safety: any thread.
class FaultTable {
 public:
  /// `plan` outlives it. `made`: when the node was. `records`: kMostFaults, in the segment or a
  /// copy of it.
  FaultTable(const profile::FaultPlan& plan, TimePoint made,
             std::shared_ptr<const layout::FaultRecord[]> records)
      : faults_(plan.faults), records_(std::move(records)), made_(made) {}

  /// Returns what goes wrong with the devices (NodeConfig::faults).
  [[nodiscard]] std::span<const profile::Fault> planned() const { return faults_; }

  /// Returns whether there is a fault of a device, or of a link that may lead to it.
  [[nodiscard]] bool has_any(int device) const;

  /// Returns whether a fault may make a device slow or lost.
  [[nodiscard]] bool may_disturb(int device) const;

  /// Returns when a device falls off the bus for those that use it at `since`, or first after it:
  /// they cannot use it again, even if it comes back.
  [[nodiscard]] TimePoint lost_from(int device, TimePoint since) const;

  /// Returns when the processes that use a device from `now` on are killed next.
  [[nodiscard]] TimePoint killed_at(int device, TimePoint now) const;

  [[nodiscard]] DeviceHealth health(int device, TimePoint now) const;

  /// Returns what is left of the rate of a device's link to a peer, or to the host (-1).
  [[nodiscard]] double link_share(int device, int peer, profile::GpuLink link, TimePoint now) const;

  /// Returns whether NVLinks between a device and a peer are broken; peer -1: all of the device.
  [[nodiscard]] bool nvlink_is_broken(int device, int peer, TimePoint now) const;

  /// Returns what a driver would have reported of a device by `now`, in the order of time.
  [[nodiscard]] std::vector<DeviceXid> xids(int device, TimePoint now) const;

  /// Returns how long work takes that starts at a time and would take `cost` on the healthy device.
  /// If the device is lost meanwhile, the work ends then.
  [[nodiscard]] Duration time_of(int device, TimePoint start, Duration cost) const;

 private:
  struct Span {
    TimePoint begin, end;
    double clock;
  };
  [[nodiscard]] TimePoint begin_of(std::size_t index) const;
  [[nodiscard]] TimePoint end_of(std::size_t index) const;
  [[nodiscard]] TimePoint first_of(profile::FaultKind kind, int device, TimePoint from) const;
  [[nodiscard]] std::vector<Span> slow_spans(int device) const;

  std::span<const profile::Fault> faults_;
  std::shared_ptr<const layout::FaultRecord[]> records_;
  TimePoint made_;
};

}  // namespace gpemu::device
