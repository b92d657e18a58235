// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "gpemu/base/units.hpp"

#include "layout.hpp"
#include "time_slices.hpp"

namespace gpemu::device {

/// The time slices of a device's compute engine in the segment, as one process sees and changes
/// them.
///
/// Each process has two states of its own. To change the time slices, it writes a whole new state
/// into the one that does not count, and makes that one count if nobody has changed anything since
/// it read the old one. So a process that dies or is stopped anywhere delays no other, and a reader
/// sees either all of a change or nothing of it. Anything may be in the segment: what is read is in
/// range. Thread safety: none, except among processes.
class SliceTable {
 public:
  using IsAlive = std::function<bool(std::uint64_t identity)>;
  /// Allocates the memory of a part of the table. Returns whether it could.
  using Allocate = std::function<bool(std::size_t offset, std::size_t size)>;

  /// `identity`: of this process. `allocate`: null if the whole table is allocated.
  SliceTable(layout::SliceTable& table, std::uint64_t identity, IsAlive is_alive,
             Allocate allocate = {})
      : table_(&table),
        identity_(identity),
        is_alive_(std::move(is_alive)),
        allocate_(std::move(allocate)) {}

  /// Returns a number that changes with each change.
  [[nodiscard]] std::uint64_t version() const {
    return table_->current.load(std::memory_order_relaxed);
  }

  /// Reads the time slices and returns their version.
  std::uint64_t read(TimeSlices& slices) const { return read(*table_, slices); }
  static std::uint64_t read(const layout::SliceTable& table, TimeSlices& slices);
  static void read(const layout::SliceState& state, TimeSlices& slices);
  /// Returns which state counts in a version.
  [[nodiscard]] static std::size_t state_of(std::uint64_t version);

  /// Changes the time slices unless they have another version by now. Returns the new version;
  /// nothing if they have, or if this process has no place in the table.
  std::optional<std::uint64_t> write(std::uint64_t version, const TimeSlices& slices);

  /// Takes a place in the table, in one of a dead process if no other is free. Returns whether
  /// there was one.
  [[nodiscard]] bool take_place();
  /// Gives it back. Requires: this process is no sharer.
  void leave_place();

  [[nodiscard]] bool is_alive(std::uint64_t identity) const { return is_alive_(identity); }
  [[nodiscard]] std::uint64_t identity() const { return identity_; }

 private:
  layout::SliceTable* table_;
  std::uint64_t identity_;
  IsAlive is_alive_;
  Allocate allocate_;
  std::optional<std::size_t> place_;
};

}  // namespace gpemu::device
