// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/device/fault_table.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/sim/shared_clock.hpp"

#include "device_claims.hpp"
#include "group_seats.hpp"
#include "layout.hpp"
#include "lock_file.hpp"
#include "mapping.hpp"
#include "mig_table.hpp"
#include "power.hpp"
#include "segment_file.hpp"
#include "slice_table.hpp"
#include "snapshot.hpp"

namespace gpemu::device {

/// A mapped node segment in which this process takes part: it has a slot in the registry.
///
/// Nothing here waits for another process: one that is stopped anywhere keeps what it claimed, and
/// blocks nothing else.
///
/// Every process that takes part holds a shared lock (flock) on the segment file, in all versions:
/// a temporary node whose file can be locked exclusively belongs to nobody. Thread safety: any
/// thread.
class Segment {
 public:
  /// `clock`: of the times for which processes queue work, by default the node's own; it must
  /// outlive the segment. A process that begins or ends reads it, to drop work of dead processes
  /// that has not run by then.
  [[nodiscard]] static Result<std::unique_ptr<Segment>> create_file(
      const NodeConfig& config, const std::filesystem::path& folder,
      const sim::Clock* clock = nullptr);
  [[nodiscard]] static Result<std::unique_ptr<Segment>> create_anonymous(const NodeConfig& config);
  /// `clock`: as for create_file.
  [[nodiscard]] static Result<std::unique_ptr<Segment>> open_file(
      const NodePath& path, const sim::Clock* clock = nullptr);

  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  /// Gives everything back; removes a temporary node that no other process uses.
  ~Segment();

  /// Ends an engine's queue after the last work of living processes, or now if that is later. Asks
  /// for one lock per registered process, about 0.3 us each. `own_tail_ns`: the end of this
  /// process's own work, 0 without any.
  void trim(int device, std::size_t engine, TimePoint now, std::int64_t own_tail_ns);

  /// Returns what this attachment holds of a device.
  [[nodiscard]] DeviceClaims& claims(int device) const {
    return *claims_[static_cast<std::size_t>(device)];
  }
  /// Returns the memory that all living processes hold, at most the device's.
  [[nodiscard]] Bytes memory_used(int device) const;
  /// The same, without that limit.
  [[nodiscard]] Bytes memory_held_at(int device) const {
    return memory_held(holdings(device), alive());
  }
  /// Returns which other process holds most memory, for a message; "" if none holds any.
  [[nodiscard]] std::string largest_holders(int device) const;

  /// Counts this process's contexts on a device. `is_mps_client`: whether it is a client of MPS,
  /// whose server is one process for the compute mode. Errors: kUnavailable if the compute mode
  /// does not allow this context.
  [[nodiscard]] Result<void> add_context(int device, bool is_mps_client = false);

  [[nodiscard]] DeviceSnapshot snapshot(int device, TimePoint now) const;

  [[nodiscard]] const NodeFacts& facts() const { return facts_; }
  [[nodiscard]] const DeviceFacts& facts(int device) const {
    return facts_.devices[static_cast<std::size_t>(facts_.device_of(device))];
  }
  /// How many places there are (layout.hpp). Here, `device` may be any, except in snapshot().
  [[nodiscard]] std::size_t places() const { return places_; }
  /// Returns the settings of the device to which a place belongs.
  [[nodiscard]] layout::SettingsRecord& settings(int place) const {
    return settings_[static_cast<std::size_t>(facts_.device_of(place))];
  }
  [[nodiscard]] TimeSliceLength time_slice(int place) const {
    return time_slice_of(settings(place));
  }
  /// Returns the living processes with contexts at a place, for a message.
  [[nodiscard]] std::string users(int place) const;
  [[nodiscard]] MigMode mig_mode(int place) const {
    return mig_mode_of(settings(place), facts_.policy);
  }
  /// Returns the instances of a device. Requires: the policy is kMig, and it is a device.
  [[nodiscard]] MigTable& mig_table(int device) const {
    return *mig_tables_[static_cast<std::size_t>(device)];
  }
  [[nodiscard]] std::span<layout::EngineRecord> engines(int device) const {
    return engines_.subspan(static_cast<std::size_t>(device) * kEngineCount, kEngineCount);
  }
  /// Returns the records in which others see what this process holds.
  [[nodiscard]] layout::HoldingRecord& own_holding(int device) const {
    return holdings(device)[static_cast<std::size_t>(slot_)];
  }
  /// Returns the records in which others see what the process of an identity holds.
  [[nodiscard]] layout::HoldingRecord& holding(int device, std::uint64_t identity) const {
    return holdings(device)[identity % layout::kProcessCapacity];
  }
  /// Returns the time slices of a device's compute engine. Requires: has_slice_tables() of
  /// the policy.
  [[nodiscard]] SliceTable slice_table(int device) const {
    return SliceTable(
        slice_tables_[static_cast<std::size_t>(device)], identity_,
        [this](std::uint64_t identity) { return is_alive(identity); },
        [this, device](std::size_t offset, std::size_t size) {
          return allocate_slices(device, offset, size);
        });
  }
  /// Returns the node's faults.
  [[nodiscard]] FaultTable faults() const {
    return {facts_.faults, facts_.made, {std::shared_ptr<void>(), fault_records_.data()}};
  }
  /// Returns what has come of the faults that begin by count.
  [[nodiscard]] std::span<layout::FaultRecord> fault_records() const { return fault_records_; }
  /// Returns the power settings of a device. Requires: it is a device.
  [[nodiscard]] layout::PowerTable& power_table(int device) const {
    return power_tables_[static_cast<std::size_t>(device)];
  }
  /// Changes the power settings of a device from now on. Requires: it is a device. Errors:
  /// kUnavailable if others keep changing them.
  Result<void> change_power(int device, TimePoint now,
                            const std::function<void(PowerSettings&)>& change);
  /// Returns the bytes that went over the links of a device. Requires: it is a device.
  [[nodiscard]] layout::LinkRecord& links(int device) const {
    return links_[static_cast<std::size_t>(device)];
  }
  /// Returns the seats of all groups of the node.
  [[nodiscard]] GroupSeats& seats() const { return *seats_; }
  /// Returns the identity of this attachment, which differs from all others, also later ones in its
  /// slot.
  [[nodiscard]] std::uint64_t identity() const { return identity_; }
  /// Returns whether the attachment of that identity still exists. Asks the kernel.
  [[nodiscard]] bool is_alive(std::uint64_t identity) const;
  /// Returns the records in which others see that process. Any value is valid.
  [[nodiscard]] layout::ProcessRecord& process(std::uint64_t identity) const {
    return processes_[identity % layout::kProcessCapacity];
  }
  /// Rings the bell of that process. Any value is valid.
  void ring(std::uint64_t identity) const;
  /// Returns the pid of that process; 0 if it is of another pid namespace.
  [[nodiscard]] pid_t pid_here(std::uint64_t identity) const;
  /// Returns a name for that process, for a message.
  [[nodiscard]] std::string describe_process(std::uint64_t identity) const;
  /// The clock of the node, for all its processes.
  [[nodiscard]] sim::SharedClock& clock() const { return *clock_; }
  /// Returns the file's path and the offset of the clock's page in it.
  [[nodiscard]] std::pair<std::filesystem::path, std::uint64_t> place_of_clock() const {
    return {path_.path(), facts_.offsets().clock};
  }
  /// Returns whether each process that takes part, except this one, is in a set of pids of this pid
  /// namespace.
  [[nodiscard]] bool all_others_among(const std::set<pid_t>& processes) const;
  [[nodiscard]] const std::string& name() const { return path_.name; }
  /// A child that was forked after attaching has this object, but neither the slot nor the locks.
  [[nodiscard]] bool owned_by_this_process() const;
  /// Errors: kUnavailable in such a child.
  [[nodiscard]] Result<void> check_owner() const;

 private:
  Segment() = default;
  [[nodiscard]] static Result<std::unique_ptr<Segment>> adopt(NodePath path,
                                                              std::unique_ptr<LockFile> locks,
                                                              NodeFacts facts,
                                                              const sim::Clock* clock);
  /// Errors: kResourceLimit if the memory cannot be mapped or all slots are taken.
  [[nodiscard]] Result<void> map();
  [[nodiscard]] Result<void> register_process();
  /// Sets the compute mode of all devices.
  void set_all(ComputeMode mode);
  void make_claims();
  void make_mig_tables();
  [[nodiscard]] bool is_this_process(const layout::ProcessRecord& process) const;
  /// Clears the records of a slot's last holder, and writes the new holder.
  void claim_slot(std::size_t slot);
  void clear_holdings(std::size_t slot);
  [[nodiscard]] std::span<layout::HoldingRecord> holdings(int device) const {
    return holdings_.subspan(static_cast<std::size_t>(device) * layout::kProcessCapacity,
                             layout::kProcessCapacity);
  }
  [[nodiscard]] DeviceTables tables(int device) const;
  [[nodiscard]] Slots alive() const;
  [[nodiscard]] Slots others_alive() const;
  /// Allocates a part of the time slices of a device. Returns whether there was space for it.
  [[nodiscard]] bool allocate_slices(int device, std::size_t offset, std::size_t size) const;
  /// Gives back engine time that no living process has reserved.
  void trim_all();
  void unlink_if_unused();

  NodePath path_;
  NodeFacts facts_;
  std::unique_ptr<LockFile> locks_;  ///< null for an anonymous segment.
  Mapping memory_;
  std::span<layout::EngineRecord> engines_;
  std::span<layout::ProcessRecord> processes_;
  std::span<layout::HoldingRecord> holdings_;
  std::span<layout::FaultRecord> fault_records_;
  std::span<layout::SettingsRecord> settings_;  ///< by device.
  std::span<layout::PowerTable> power_tables_;  ///< by device.
  std::span<layout::LinkRecord> links_;         ///< by device.
  std::span<layout::SliceTable> slice_tables_;  ///< by place; none unless the policy uses them.
  std::span<layout::MigTable> mig_records_;     ///< by device; none unless the policy is kMig.
  std::vector<std::unique_ptr<MigTable>> mig_tables_;  ///< likewise.
  std::size_t places_ = 0;
  std::unique_ptr<sim::SharedClock> clock_;
  const sim::Clock* queue_clock_ = nullptr;            ///< of the times at which work is queued.
  std::vector<std::unique_ptr<DeviceClaims>> claims_;  ///< by place.
  std::ptrdiff_t slot_ = -1;
  std::uint64_t identity_ = 0;
  std::unique_ptr<GroupSeats> seats_;
  pid_t owner_pid_ = 0;
};

}  // namespace gpemu::device
