// SPDX-License-Identifier: Apache-2.0
#include "group_seats.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <thread>

#include "identity.hpp"

namespace gpemu::device {
namespace {

using layout::SeatRecord;

/// How often to try again if the room is taken by other processes, which may not have needed it.
constexpr int kMostSeatAttempts = 100;
constexpr auto kPause = std::chrono::microseconds(100);

bool replace(std::atomic<std::uint64_t>& value, std::uint64_t from, std::uint64_t to) {
  return value.compare_exchange_strong(from, to);
}

/// Returns whether nobody has a seat or can still take one.
bool is_empty(std::uint64_t owner, std::uint64_t key) {
  return owner == 0 || owner == layout::left(key);
}

/// Notes which parties of a group have died, and frees the seats if none is left. No change can be
/// undone, so any number of processes may do this at once and be killed in the middle.
void free_if_empty(const Segment& segment, Seats seats, std::uint64_t key) {
  bool all_empty = true;
  for (SeatRecord& seat : seats) {
    if (seat.key != key) continue;
    std::uint64_t owner = seat.owner;
    if (!is_empty(owner, key) && !segment.is_alive(owner & ~layout::kReserved)) {
      replace(seat.owner, owner, layout::left(key));
      owner = seat.owner;
    }
    all_empty = all_empty && is_empty(owner, key);
  }
  if (!all_empty) return;
  for (SeatRecord& seat : seats) {
    if (seat.key == key) replace(seat.owner, layout::left(key), 0);
  }
}

/// Frees the seats of groups whose parties have all left or died.
void free_abandoned(const Segment& segment) {
  std::set<std::uint64_t> keys;
  for (const SeatRecord& seat : segment.seats()) {
    if (seat.owner != 0) keys.insert(seat.key);
  }
  for (const std::uint64_t key : keys) free_if_empty(segment, segment.seats(), key);
}

/// Reserves a row of free seats. Returns the first, or nothing if there is none.
std::optional<std::size_t> claim_row(const Segment& segment, std::size_t parties,
                                     std::uint64_t key) {
  const Seats all = segment.seats();
  const std::uint64_t own = segment.identity() | layout::kReserved;
  const auto give_back = [&](std::size_t end, std::size_t count) {
    for (SeatRecord& seat : all.subspan(end - count, count)) replace(seat.owner, own, 0);
  };
  std::size_t claimed = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!replace(all[i].owner, 0, own)) {
      give_back(i, claimed);
      claimed = 0;
      continue;
    }
    all[i].key = key;
    all[i].count = 0;
    if (++claimed == parties) return i + 1 - parties;
  }
  give_back(all.size(), claimed);
  return std::nullopt;
}

}  // namespace

bool can_come(const Segment& segment, const SeatRecord& seat) {
  const std::uint64_t owner = seat.owner;
  return !is_empty(owner, seat.key) && segment.is_alive(owner & ~layout::kReserved);
}

Result<GroupId> reserve_seats(const Segment& segment, int parties) {
  if (parties < 1 || static_cast<std::size_t>(parties) > layout::kSeatCapacity) {
    return fail(ErrorCode::kInvalidArgument, "a group has 1 to {} parties, not {}",
                layout::kSeatCapacity, parties);
  }
  const std::uint64_t key = unique_number();
  const auto count = static_cast<std::size_t>(parties);
  auto first = claim_row(segment, count, key);
  for (int attempt = 0; !first && attempt < kMostSeatAttempts; ++attempt) {
    if (attempt == 0) free_abandoned(segment);
    if (attempt > 1) std::this_thread::sleep_for(kPause);
    first = claim_row(segment, count, key);
  }
  if (!first) {
    return fail(ErrorCode::kResourceLimit,
                "the node '{}' does not have {} adjacent free seats for a group; all groups share "
                "{} seats: end groups that are no longer used",
                segment.name(), parties, layout::kSeatCapacity);
  }
  return GroupId{.key = key,
                 .first_seat = static_cast<std::uint32_t>(*first),
                 .parties = static_cast<std::uint32_t>(parties)};
}

Result<Seats> take_seat(const Segment& segment, const GroupId& group, int seat) {
  const Seats all = segment.seats();
  if (seat < 0 || static_cast<std::uint32_t>(seat) >= group.parties) {
    return fail(ErrorCode::kInvalidArgument, "a group of {} has the seats 0 to {}, not {}",
                group.parties, std::int64_t{group.parties} - 1, seat);
  }
  const auto gone = [&] {
    return fail(
        ErrorCode::kNotFound,
        "the node '{}' has no such group: its creator has left, or created it on another node",
        segment.name());
  };
  if (group.first_seat > all.size() || group.parties > all.size() - group.first_seat) return gone();
  const Seats seats = all.subspan(group.first_seat, group.parties);
  const auto is_of_group = [&](const SeatRecord& one) { return one.key == group.key; };
  SeatRecord& taken = seats[static_cast<std::size_t>(seat)];
  std::uint64_t owner = taken.owner;
  if (!std::ranges::all_of(seats, is_of_group) || is_empty(owner, group.key)) return gone();
  if ((owner & layout::kReserved) == 0 || !replace(taken.owner, owner, segment.identity())) {
    return fail(ErrorCode::kInvalidArgument, "seat {} of the group is taken", seat);
  }
  if (is_of_group(taken)) return seats;
  // In the meantime, the group's creator gave it up and created another one here.
  replace(taken.owner, segment.identity(), owner);
  return gone();
}

void leave_seat(const Segment& segment, Seats seats, std::size_t seat, std::uint64_t key) {
  seats[seat].owner = layout::left(key);
  for (SeatRecord& other : seats) {
    // If this party created the group: the seats of parties that have not come by now.
    replace(other.owner, segment.identity() | layout::kReserved, layout::left(key));
  }
  free_if_empty(segment, seats, key);
}

}  // namespace gpemu::device
