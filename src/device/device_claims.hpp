// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"

#include "layout.hpp"
#include "snapshot.hpp"

namespace gpemu::device {

/// The resources of one device that a process holds and other processes may want: memory, and the
/// device itself if only one process may use it.
///
/// The process publishes a claim first and then looks: if two claim something that only one can
/// have, at least one of them sees the other, withdraws its claim and looks again. So no process
/// waits for another, and a process that is stopped at any point keeps what it claimed, but blocks
/// nothing else. Thread safety: any thread.
class DeviceClaims {
 public:
  /// How often a process tries again after others changed something in between. Processes that only
  /// use a device never come near this limit. Those that attack it can cause refusals, but not
  /// delay others.
  static constexpr int kMostAttempts = 1000;

  /// How a process sees the others, and how it gets out of their way.
  struct Others {
    std::function<Slots()> attachments;            ///< returns the living ones except this one.
    std::function<bool(std::size_t slot)> is_own;  ///< whether it belongs to this process, too.
    std::function<void(int attempt)> pause;        ///< waits before it looks again.
  };

  /// `capacity`: the device's memory, until set_capacity() says otherwise. `holdings`: the records
  /// of all slots. `slot`: this attachment's.
  DeviceClaims(Bytes capacity, std::span<layout::HoldingRecord> holdings, std::size_t slot,
               Others others);

  void set_capacity(Bytes capacity) GPEMU_EXCLUDES(mutex_);
  [[nodiscard]] Bytes capacity() GPEMU_EXCLUDES(mutex_);
  /// Says that this attachment is one of a tenant's, whose limit is that of all together. Call it
  /// before the attachment takes anything.
  void set_tenant(std::uint8_t tenant) { published_.tenant = tenant; }
  /// The most memory that this attachment, or its tenant, may take; the last number if there is no
  /// limit.
  void set_limit(Bytes limit) GPEMU_EXCLUDES(mutex_);
  [[nodiscard]] Bytes limit() GPEMU_EXCLUDES(mutex_);

  /// Takes memory if that much is free, and the limit allows it. Returns whether it did.
  [[nodiscard]] bool take_memory(Bytes bytes) GPEMU_EXCLUDES(mutex_);
  /// Requires: this attachment has taken that much.
  void give_back_memory(Bytes bytes) GPEMU_EXCLUDES(mutex_);
  /// Returns how much memory this attachment has taken.
  [[nodiscard]] Bytes memory() GPEMU_EXCLUDES(mutex_);
  /// Returns how much of what the limit allows is taken: by this attachment, or by its tenant.
  [[nodiscard]] Bytes limited_memory() GPEMU_EXCLUDES(mutex_);

  /// Why a context was refused: a process has one, in the slot `holder`, or, if there is no holder,
  /// others kept claiming the device.
  struct Refusal {
    std::optional<std::size_t> holder;
  };
  /// Counts a context of this process. If it wants the device for itself (`alone`), it is refused
  /// while another process has a context. `is_mps_client`: it does not mind other clients, because
  /// their server is one user.
  [[nodiscard]] std::optional<Refusal> add_context(bool alone, bool is_mps_client = false)
      GPEMU_EXCLUDES(mutex_);
  /// Requires: this attachment has a context.
  void remove_context() GPEMU_EXCLUDES(mutex_);

 private:
  [[nodiscard]] bool fits(Bytes bytes) const GPEMU_REQUIRES(mutex_);
  /// Returns what other attachments of this one's tenant have taken.
  [[nodiscard]] Bytes held_by_tenant(const Slots& others) const;
  /// Returns the slot of another process that has a context.
  [[nodiscard]] std::optional<std::size_t> other_user(bool is_mps_client) const;

  const std::span<layout::HoldingRecord> holdings_;
  layout::HoldingRecord& published_;  ///< what others see; the originals are below.
  const Others others_;
  Mutex mutex_;
  Bytes capacity_ GPEMU_GUARDED_BY(mutex_);
  Bytes limit_ GPEMU_GUARDED_BY(mutex_) = std::numeric_limits<Bytes>::max();
  Bytes memory_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::int32_t contexts_ GPEMU_GUARDED_BY(mutex_) = 0;
};

}  // namespace gpemu::device
