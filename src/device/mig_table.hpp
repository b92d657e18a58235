// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "gpemu/base/error.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/device/mig_layout.hpp"
#include "gpemu/profile/mig_profile.hpp"

#include "layout.hpp"

namespace gpemu::device {

/// The instances of one GPU in the segment, as one attachment sees and changes them.
///
/// Each attachment has two states of its own. To change the instances, it writes a whole new state
/// into the one that does not count, and makes it count by compare-and-swap. So an attachment that
/// dies or stops anywhere delays no other, and a reader sees all of a change or nothing of it.
///
/// A compute instance is destroyed in two steps, because processes may begin to use it at the same
/// time: it is marked, and goes only if nobody uses it then and the mark has stayed. A process
/// publishes its use, then looks, and takes a mark away. So one of the two gives in, and a mark
/// that a dead process has left stops nobody. Anything may be in the segment. Thread safety: any
/// thread.
class MigTable {
 public:
  /// Returns the living processes that use a place (MigDevice::compute_place), for a message; "" if
  /// none does.
  using Users = std::function<std::string(int place)>;
  using Change = std::function<Result<void>(MigLayout& layout)>;

  /// `slot`: of this attachment in the registry.
  MigTable(layout::MigTable& table, std::size_t slot, Users users)
      : table_(table), slot_(slot), users_(std::move(users)) {}

  struct State {
    std::uint64_t version = 0;
    MigLayout::Words words{};
  };
  static State read(const layout::MigTable& table);
  [[nodiscard]] State read() const { return read(table_); }

  /// Returns the parts of the GPU's compute engine that places are, by the compute slices, of
  /// seven, of the instances there; one slice for a place without one. Source: all GPUs of
  /// catalog/gpus/ with MIG have seven.
  static std::array<double, layout::kMigPlaces> weights(const MigLayout::Words& words);

  /// Changes the instances. `change` may be called several times. Errors: its own; kUnavailable if
  /// a process uses a compute instance that it destroys, or others keep changing them; kUnsupported
  /// if it creates an instance of unknown size.
  Result<void> change(std::span<const profile::MigProfile> profiles, const Change& change)
      GPEMU_EXCLUDES(mutex_);

  /// Returns whether an instance still exists, which stays then. Requires: this process's use of it
  /// is published.
  [[nodiscard]] bool keep(const MigDevice& device) GPEMU_EXCLUDES(mutex_);

 private:
  /// Changes the state unless it has another version by now. Returns the new version, or 0.
  std::uint64_t write(std::uint64_t version, const MigLayout::Words& words) GPEMU_REQUIRES(mutex_);

  layout::MigTable& table_;
  const std::size_t slot_;
  const Users users_;
  Mutex mutex_;  ///< two threads would write the same state.
};

}  // namespace gpemu::device
