// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "gpemu/base/units.hpp"
#include "gpemu/device/node_state.hpp"

#include "layout.hpp"

namespace gpemu::device {

/// A part of an engine's time that belongs to this process.
struct Turn {
  TimePoint start;
  TimePoint end;
};

/// Returns whether several processes may have contexts on a device.
[[nodiscard]] constexpr bool allows_others(SharingPolicy policy) {
  return policy != SharingPolicy::kExclusive;
}

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
  virtual Turn reserve(std::size_t engine, TimePoint now, TimePoint earliest, Duration cost) = 0;

  /// Returns when time that is reserved now starts, but not before `from`.
  [[nodiscard]] virtual TimePoint next_start(std::size_t engine, TimePoint now, TimePoint from) = 0;

  /// Returns whether no other process has work on an engine after this one's, or after `now`.
  [[nodiscard]] virtual bool is_last(std::size_t engine, TimePoint now) const = 0;
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
