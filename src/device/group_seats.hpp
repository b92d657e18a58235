// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "gpemu/base/error.hpp"
#include "gpemu/device/group_id.hpp"

#include "layout.hpp"

namespace gpemu::device {

/// The seats of one group, in the node's segment.
using Seats = std::span<layout::SeatRecord>;

/// The seats of all groups of a node, as one of its processes uses them. Thread safety: any thread.
class GroupSeats {
 public:
  /// Returns whether the attachment of an identity still exists.
  using IsAlive = std::function<bool(std::uint64_t identity)>;

  /// `node`: the node's name, for messages. `own`: the identity of this process's attachment.
  GroupSeats(Seats all, std::string node, std::uint64_t own, IsAlive is_alive);

  /// Reserves seats for a new group. Errors: those of Rendezvous::create_group.
  [[nodiscard]] Result<GroupId> reserve(int parties);

  /// Takes a seat and returns all seats of the group. Errors: those of Rendezvous::join.
  [[nodiscard]] Result<Seats> take(const GroupId& group, int seat);

  /// Leaves a seat, together with the seats that this process has reserved and nobody has taken.
  /// Frees all seats of the group if nobody has one.
  void leave(Seats seats, std::size_t seat, std::uint64_t key);

  /// Returns whether the party of a seat can still come: whether the process that has taken or
  /// reserved the seat lives.
  [[nodiscard]] bool can_come(const layout::SeatRecord& seat) const;

 private:
  void free_if_empty(Seats seats, std::uint64_t key);
  void free_abandoned();
  [[nodiscard]] std::optional<std::size_t> claim_row(std::size_t parties, std::uint64_t key);

  Seats all_;
  std::string node_;
  std::uint64_t own_;
  IsAlive is_alive_;
};

}  // namespace gpemu::device
