// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/base/units.hpp"
#include "gpemu/device/node_state.hpp"

#include "layout.hpp"
#include "segment_file.hpp"

namespace gpemu::device {

/// The lowest clock that can be locked. Source: nvidia-smi -q -d SUPPORTED_CLOCKS of an A100: from
/// 210 to 1410 MHz, in steps of 15.
inline constexpr double kLowestLockedMhz = 210;

/// The power settings of a device from a time on, and sums up to that time: a PowerState of the
/// segment, in which nothing is trusted. The default is that of a device whose settings nobody has
/// changed.
struct PowerSettings {
  std::uint64_t number = 0;
  TimePoint from{};
  Duration busy{};
  Duration capped{};
  double energy_j = 0;
  double limit_w = 0;    ///< 0: the board's.
  double clock_mhz = 0;  ///< 0: the clock is not locked.
};

/// Returns the settings that count in a table.
[[nodiscard]] PowerSettings read_power(const layout::PowerTable& table);
/// The same of two copies of a table, `before` read before `after`, while others may change it.
[[nodiscard]] PowerSettings read_power(const layout::PowerTable& before,
                                       const layout::PowerTable& after);

/// Makes settings count that were made from those of number `settings.number`, and gives them their
/// own number. `taken`: the last number that had been taken before those were read. Returns false
/// if another process has taken one since.
[[nodiscard]] bool write_power(layout::PowerTable& table, std::uint64_t taken,
                               PowerSettings& settings);

/// Returns what comes of the settings of a device whose compute engine has worked for `busy` by
/// `now`. docs/design/power.md has the equations.
[[nodiscard]] PowerSnapshot power_at(const PowerSettings& settings, const DeviceFacts& facts,
                                     Duration busy, TimePoint now);

/// The clock of a device, for a process that launches kernels. Outlives neither the table nor the
/// facts. Thread safety: guarded by the schedule's mutex.
class LaunchClock {
 public:
  LaunchClock(const layout::PowerTable& table, const DeviceFacts& facts)
      : table_(&table), facts_(&facts) {}

  /// Returns how long a kernel takes that is launched now and would take `cost` at the full clock.
  /// `memory_share`: the part of that time which does not depend on the clock.
  [[nodiscard]] Duration time_of(Duration cost, double memory_share) {
    if (table_->taken.load(std::memory_order_relaxed) != number_) [[unlikely]]
      look();
    return clock_ == 1 ? cost : slowed(cost, memory_share);
  }

 private:
  void look();
  [[nodiscard]] Duration slowed(Duration cost, double memory_share) const;

  const layout::PowerTable* table_;
  const DeviceFacts* facts_;
  std::uint64_t number_ = 0;  ///< of the settings from which the clock follows.
  double clock_ = 1;
};

}  // namespace gpemu::device
