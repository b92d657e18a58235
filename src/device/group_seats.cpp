// SPDX-License-Identifier: Apache-2.0
#include "group_seats.hpp"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

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

}  // namespace

GroupSeats::GroupSeats(Seats all, std::string node, std::uint64_t own, IsAlive is_alive)
    : all_(all), node_(std::move(node)), own_(own), is_alive_(std::move(is_alive)) {}

/// Notes which parties of a group have died, and frees the seats if none is left. No change can be
/// undone, so any number of processes may do this at once and be killed in the middle.
void GroupSeats::free_if_empty(Seats seats, std::uint64_t key) {
  bool all_empty = true;
  for (SeatRecord& seat : seats) {
    if (seat.key != key) continue;
    std::uint64_t owner = seat.owner;
    if (!is_empty(owner, key) && !is_alive_(owner & ~layout::kReserved)) {
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
void GroupSeats::free_abandoned() {
  std::set<std::uint64_t> keys;
  for (const SeatRecord& seat : all_) {
    if (seat.owner != 0) keys.insert(seat.key);
  }
  for (const std::uint64_t key : keys) free_if_empty(all_, key);
}

/// Reserves a row of free seats. Returns the first, or nothing if there is none.
std::optional<std::size_t> GroupSeats::claim_row(std::size_t parties, std::uint64_t key) {
  const std::uint64_t reserved = own_ | layout::kReserved;
  const auto give_back = [&](std::size_t end, std::size_t count) {
    for (SeatRecord& seat : all_.subspan(end - count, count)) replace(seat.owner, reserved, 0);
  };
  std::size_t claimed = 0;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (!replace(all_[i].owner, 0, reserved)) {
      give_back(i, claimed);
      claimed = 0;
      continue;
    }
    all_[i].key = key;
    all_[i].count = 0;
    if (++claimed == parties) return i + 1 - parties;
  }
  give_back(all_.size(), claimed);
  return std::nullopt;
}

bool GroupSeats::can_come(const SeatRecord& seat) const {
  const std::uint64_t owner = seat.owner;
  return !is_empty(owner, seat.key) && is_alive_(owner & ~layout::kReserved);
}

Result<GroupId> GroupSeats::reserve(int parties) {
  if (parties < 1 || static_cast<std::size_t>(parties) > all_.size()) {
    return fail(ErrorCode::kInvalidArgument, "a group has 1 to {} parties, not {}", all_.size(),
                parties);
  }
  const std::uint64_t key = unique_number();
  const auto count = static_cast<std::size_t>(parties);
  auto first = claim_row(count, key);
  for (int attempt = 0; !first && attempt < kMostSeatAttempts; ++attempt) {
    if (attempt == 0) free_abandoned();
    if (attempt > 1) std::this_thread::sleep_for(kPause);
    first = claim_row(count, key);
  }
  if (!first) {
    return fail(ErrorCode::kResourceLimit,
                "the node '{}' does not have {} adjacent free seats for a group; all groups share "
                "{} seats: end groups that are no longer used",
                node_, parties, all_.size());
  }
  return GroupId{.key = key,
                 .first_seat = static_cast<std::uint32_t>(*first),
                 .parties = static_cast<std::uint32_t>(parties)};
}

Result<Seats> GroupSeats::take(const GroupId& group, int seat) {
  if (seat < 0 || static_cast<std::uint32_t>(seat) >= group.parties) {
    return fail(ErrorCode::kInvalidArgument, "a group of {} has the seats 0 to {}, not {}",
                group.parties, std::int64_t{group.parties} - 1, seat);
  }
  const auto gone = [&] {
    return fail(
        ErrorCode::kNotFound,
        "the node '{}' has no such group: its creator has left, or created it on another node",
        node_);
  };
  if (group.first_seat > all_.size() || group.parties > all_.size() - group.first_seat) {
    return gone();
  }
  const Seats seats = all_.subspan(group.first_seat, group.parties);
  const auto is_of_group = [&](const SeatRecord& one) { return one.key == group.key; };
  SeatRecord& taken = seats[static_cast<std::size_t>(seat)];
  std::uint64_t owner = taken.owner;
  if (!std::ranges::all_of(seats, is_of_group) || is_empty(owner, group.key)) return gone();
  if ((owner & layout::kReserved) == 0 || !replace(taken.owner, owner, own_)) {
    return fail(ErrorCode::kInvalidArgument, "seat {} of the group is taken", seat);
  }
  if (is_of_group(taken)) return seats;
  // In the meantime, the group's creator gave it up and created another one here.
  replace(taken.owner, own_, owner);
  return gone();
}

void GroupSeats::leave(Seats seats, std::size_t seat, std::uint64_t key) {
  seats[seat].owner = layout::left(key);
  for (SeatRecord& other : seats) {
    // If this party created the group: the seats of parties that have not come by now.
    replace(other.owner, own_ | layout::kReserved, layout::left(key));
  }
  free_if_empty(seats, key);
}

}  // namespace gpemu::device
