// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpemu/base/error.hpp"
#include "gpemu/device/group_id.hpp"

#include "layout.hpp"
#include "segment.hpp"

namespace gpemu::device {

/// The seats of one group, in the node's segment.
using Seats = std::span<layout::SeatRecord>;

/// Reserves seats for a new group. Errors: those of Rendezvous::create_group.
[[nodiscard]] Result<GroupId> reserve_seats(const Segment& segment, int parties);

/// Takes a seat and returns all seats of the group. Errors: those of Rendezvous::join.
[[nodiscard]] Result<Seats> take_seat(const Segment& segment, const GroupId& group, int seat);

/// Leaves a seat, together with the seats that this process has reserved and nobody has taken.
/// Frees all seats of the group if nobody has one.
void leave_seat(const Segment& segment, Seats seats, std::size_t seat, std::uint64_t key);

/// Returns whether the party of a seat can still come: whether the process that has taken or
/// reserved the seat lives.
[[nodiscard]] bool can_come(const Segment& segment, const layout::SeatRecord& seat);

}  // namespace gpemu::device
