// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/interval.hpp"
#include "gpemu/device/node_state.hpp"

#include "demand.hpp"
#include "layout.hpp"

namespace gpemu::device {

/// A kernel that a process wants to launch.
struct KernelLaunch {
  Duration cost{};
  KernelNeeds needs{};
};

/// Time that an engine reserves for a process. No Turn, because two words are returned in
/// registers.
struct Reservation {
  TimePoint start;
  TimePoint end;
};

/// A sharing policy, as one process sees it on one device: which of its engines' time this process
/// gets.
///
/// A process orders its work within its own time as it likes. Thread safety: guarded by the
/// schedule's mutex.
class DeviceSharing {
 public:
  DeviceSharing() = default;
  DeviceSharing(const DeviceSharing&) = delete;
  DeviceSharing& operator=(const DeviceSharing&) = delete;
  virtual ~DeviceSharing() = default;

  /// Gives this process at least `cost` more of an engine's time, from `earliest` on. Its turn may
  /// start earlier, but not before the end of its previous one. Requires: earliest >= now.
  virtual Reservation reserve(std::size_t engine, TimePoint now, TimePoint earliest,
                              Duration cost) = 0;

  /// Returns when time that is reserved now starts, but not before `from`.
  [[nodiscard]] virtual TimePoint next_start(std::size_t engine, TimePoint now, TimePoint from) = 0;

  /// Returns whether no other process has work on an engine after this one's, or after `now`.
  [[nodiscard]] virtual bool is_last(std::size_t engine, TimePoint now) const = 0;

  /// Counts a context of this process on the device. Returns whether there is room for one.
  [[nodiscard]] virtual bool join(TimePoint /*now*/, const SharingRole& /*role*/) { return true; }
  /// Requires: a context was counted.
  virtual void leave(TimePoint /*now*/) {}

  /// Returns when this process may launch a kernel: not after `now` if at once; else when to ask
  /// again, because it may be possible then.
  [[nodiscard]] virtual TimePoint launch_from(TimePoint now, const KernelLaunch& /*kernel*/) {
    return now;
  }
  /// Notes that a kernel is launched, as launch_from() allowed.
  virtual void note_launch(const KernelLaunch& /*kernel*/) {}

  /// Returns whether there is an engine, the compute engine, on which moves() can be true.
  [[nodiscard]] virtual bool can_move() const { return false; }
  /// Returns whether other processes can move this process's turns on an engine: those that are not
  /// over are then only expected. The process asks for them with want() and not with reserve().
  [[nodiscard]] virtual bool moves(std::size_t /*engine*/) const { return false; }
  /// Returns whether other processes have changed anything on an engine since the last update.
  [[nodiscard]] virtual bool has_news(std::size_t /*engine*/) const { return false; }
  /// Brings the turns on the engine that can move up to date: those that are over by `now` are then
  /// final. Returns whether turns that were expected may have moved. `unfinished`: the cost of this
  /// process's work there that has not ended.
  virtual bool update(TimePoint /*now*/, Duration /*unfinished*/, std::vector<Turn>& /*turns*/) {
    return false;
  }
  /// Asks for time on that engine.
  virtual void want(TimePoint /*now*/, const Demand& /*demand*/) {}
  /// Adds the next turns that are expected, until one ends after `until` or no more are.
  virtual void expect(TimePoint /*until*/, std::vector<Turn>& /*turns*/) {}
  /// Returns when update() is due although this process does nothing.
  [[nodiscard]] virtual TimePoint next_look() const { return TimePoint::max(); }
};

/// Ends an engine's queue after the last work of living processes, or now if that is later.
/// `own_tail_ns`: the end of this process's own work.
using Trim = std::function<void(std::size_t engine, TimePoint now, std::int64_t own_tail_ns)>;

/// Returns a policy for one device. `engines`: the records of its engines, which all processes
/// change. `own`: what others see of this process.
[[nodiscard]] std::unique_ptr<DeviceSharing> make_sharing(SharingPolicy policy,
                                                          std::span<layout::EngineRecord> engines,
                                                          layout::HoldingRecord& own, Trim trim);

}  // namespace gpemu::device
