// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gpemu/device/node_state.hpp"

#include "layout.hpp"
#include "segment_file.hpp"
#include "time_slices.hpp"

namespace gpemu::device {

/// Slots of the registry.
using Slots = std::bitset<layout::kProcessCapacity>;

/// The changing part of one device: mapped, or a copy. Nothing in it is trusted.
struct DeviceTables {
  std::span<const layout::EngineRecord> engines;
  std::span<const layout::ProcessRecord> processes;
  std::span<const layout::HoldingRecord> holdings;
  /// Of the compute engine, up to now, if processes share it by time slices; else null.
  const TimeSlices* slices = nullptr;
};

/// Returns the slots whose holders live, only by the locks on an open segment: nothing that is
/// written there makes a holder dead. Does not ask about `own_slot` (-1: none), because a process
/// does not conflict with its own lock. Requires: 0 <= descriptor.
[[nodiscard]] Slots slots_alive(int descriptor, std::ptrdiff_t own_slot);

/// Returns until when the given slots need an engine, or `now_ns` if that is later. Ignores times
/// after `latest_ns`.
[[nodiscard]] std::int64_t needed_until(std::span<const layout::HoldingRecord> holdings,
                                        const Slots& slots, std::size_t engine, std::int64_t now_ns,
                                        std::int64_t latest_ns);

/// Returns how much of an engine's queue from `begin_ns` to `end_ns` is work of slots that are in
/// use but not alive: no more than they ever queued.
[[nodiscard]] std::int64_t work_of_dead(const DeviceTables& device, const Slots& alive,
                                        std::size_t engine, std::int64_t begin_ns,
                                        std::int64_t end_ns);

/// Returns a setting of a device; the default if anything else is written there.
[[nodiscard]] ComputeMode compute_mode_of(const layout::SettingsRecord& settings);
[[nodiscard]] TimeSliceLength time_slice_of(const layout::SettingsRecord& settings);
[[nodiscard]] MigMode mig_mode_of(const layout::SettingsRecord& settings, SharingPolicy policy);

/// Returns the memory that slots hold together.
[[nodiscard]] Bytes memory_held(std::span<const layout::HoldingRecord> holdings,
                                const Slots& slots);

/// Returns a device's state. Only living processes count.
[[nodiscard]] DeviceSnapshot make_snapshot(int index, const DeviceFacts& facts,
                                           const DeviceTables& device, const Slots& alive,
                                           TimePoint now);

/// Adds to a device's state what its MIG devices do. `weights`: of the places, the part of the
/// GPU's compute engine that each is.
void add_mig_places(DeviceSnapshot& snapshot, std::span<const DeviceTables> places,
                    const std::array<double, layout::kMigPlaces>& weights, const DeviceFacts& facts,
                    const Slots& alive, TimePoint now);

/// Adds what is set for a device, without its power.
void add_settings(DeviceSnapshot& snapshot, const layout::SettingsRecord& settings,
                  SharingPolicy policy);

/// Adds the traffic over a device's links, whose copies from and to the host are in the state.
void add_links(DeviceSnapshot& snapshot, const layout::LinkRecord& links);

/// Returns "process 12 (python)"; for another pid namespace, with its number.
[[nodiscard]] std::string describe(const ProcessSnapshot& process);

/// Returns the process that a slot describes.
[[nodiscard]] ProcessSnapshot process_of(const layout::ProcessRecord& record);

}  // namespace gpemu::device
