// SPDX-License-Identifier: Apache-2.0
#include "group_seats.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

namespace gpemu::device {
namespace {

/// A node of eight seats in memory of the test, and processes that the test ends.
class GroupSeatsTest : public testing::Test {
 protected:
  [[nodiscard]] GroupSeats seats_of(std::uint64_t identity) {
    return {Seats(seats_).first(8), "n", identity,
            [this](std::uint64_t one) { return !dead_.contains(one); }};
  }
  [[nodiscard]] bool all_free() const {
    return std::ranges::all_of(seats_, [](const auto& seat) { return seat.owner == 0; });
  }

  static constexpr std::uint64_t kFirst = 1 << 8, kSecond = 2 << 8, kThird = 3 << 8;
  std::array<layout::SeatRecord, 9> seats_{};  ///< the last is of nobody.
  std::set<std::uint64_t> dead_;
  GroupSeats first_ = seats_of(kFirst);
  GroupSeats second_ = seats_of(kSecond);
  GroupSeats third_ = seats_of(kThird);
};

TEST_F(GroupSeatsTest, GroupsHaveSeatsNextToEachOtherThatNoOtherHas) {
  const GroupId a = first_.reserve(3).value();
  const GroupId b = second_.reserve(2).value();
  const GroupId c = first_.reserve(3).value();
  EXPECT_EQ(a.first_seat, 0U);
  EXPECT_EQ(b.first_seat, 3U);
  EXPECT_EQ(c.first_seat, 5U);
  EXPECT_TRUE(a.key != b.key && b.key != c.key && a.key != c.key);
  EXPECT_EQ(first_.reserve(1).error().code, ErrorCode::kResourceLimit);
}

TEST_F(GroupSeatsTest, AGroupFitsOnlyIntoSeatsNextToEachOther) {
  const GroupId a = first_.reserve(2).value();
  static_cast<void>(second_.reserve(4).value());
  const Seats taken = first_.take(a, 0).value();
  first_.leave(taken, 0, a.key);
  EXPECT_EQ(third_.reserve(4).error().code, ErrorCode::kResourceLimit) << "two and two are free";
  EXPECT_EQ(third_.reserve(2).value().first_seat, 0U);
  EXPECT_EQ(third_.reserve(2).value().first_seat, 6U);
}

TEST_F(GroupSeatsTest, ARefusedGroupKeepsNoSeats) {
  static_cast<void>(first_.reserve(5).value());
  ASSERT_FALSE(second_.reserve(4));
  EXPECT_TRUE(third_.reserve(3));
}

TEST_F(GroupSeatsTest, AGroupHasAtLeastOnePartyAndAtMostAsManyAsThereAreSeats) {
  EXPECT_EQ(first_.reserve(0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(first_.reserve(-1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(first_.reserve(9).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(first_.reserve(8));
}

TEST_F(GroupSeatsTest, ASeatIsTakenOnceAndAllPartiesGetTheSameSeats) {
  static_cast<void>(first_.reserve(3).value());
  const GroupId group = first_.reserve(2).value();
  const Seats seats = first_.take(group, 1).value();
  EXPECT_EQ(second_.take(group, 1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(second_.take(group, 0).value().data(), seats.data());
  EXPECT_EQ(seats.data(), &seats_[3]);
  EXPECT_EQ(seats.size(), 2U);
  EXPECT_EQ(seats[0].owner, kSecond);
  EXPECT_EQ(seats[1].owner, kFirst);
}

TEST_F(GroupSeatsTest, ANewGroupHasNoArrivals) {
  for (layout::SeatRecord& seat : seats_) seat.count = 7;  // Of former groups.
  const GroupId group = first_.reserve(2).value();
  const Seats seats = first_.take(group, 0).value();
  for (const layout::SeatRecord& seat : seats) EXPECT_EQ(seat.count, 0U);
}

TEST_F(GroupSeatsTest, RefusesSeatsAndGroupsThatDoNotExist) {
  const GroupId group = first_.reserve(3).value();
  EXPECT_EQ(second_.take(group, -1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(second_.take(group, 3).error().code, ErrorCode::kInvalidArgument);
  GroupId wrong = group;
  ++wrong.key;
  EXPECT_EQ(second_.take(wrong, 0).error().code, ErrorCode::kNotFound);
  wrong = group;
  wrong.first_seat = 1;
  EXPECT_EQ(second_.take(wrong, 0).error().code, ErrorCode::kNotFound) << "one is of no group";
  wrong.first_seat = 6;
  for (layout::SeatRecord& seat : seats_) seat.key = group.key;
  seats_[6].owner = kFirst | layout::kReserved;
  EXPECT_EQ(second_.take(wrong, 0).error().code, ErrorCode::kNotFound) << "one does not exist";
  wrong.first_seat = ~0U;
  EXPECT_EQ(second_.take(wrong, 0).error().code, ErrorCode::kNotFound);
}

TEST_F(GroupSeatsTest, WhenTheCreatorLeavesSeatsThatNobodyHasTakenCountAsLeft) {
  const GroupId group = first_.reserve(3).value();
  const Seats seats = first_.take(group, 0).value();
  ASSERT_TRUE(second_.take(group, 1));
  EXPECT_TRUE(second_.can_come(seats[2])) << "somebody may take it";
  first_.leave(seats, 0, group.key);
  EXPECT_FALSE(second_.can_come(seats[0]));
  EXPECT_TRUE(first_.can_come(seats[1]));
  EXPECT_FALSE(second_.can_come(seats[2]));
  EXPECT_EQ(third_.take(group, 2).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(seats[0].owner, layout::left(group.key)) << "the second still needs to see that";
  second_.leave(seats, 1, group.key);
  EXPECT_TRUE(all_free());
}

TEST_F(GroupSeatsTest, APartyThatIsNotTheCreatorLeavesOnlyItsOwnSeat) {
  const GroupId group = first_.reserve(3).value();
  const Seats seats = second_.take(group, 1).value();
  second_.leave(seats, 1, group.key);
  EXPECT_TRUE(third_.take(group, 2));
  EXPECT_EQ(third_.take(group, 1).error().code, ErrorCode::kNotFound);
}

TEST_F(GroupSeatsTest, ADeadPartyCannotComeAndItsSeatIsFreeWithTheLastOfTheGroup) {
  const GroupId group = first_.reserve(2).value();
  const Seats seats = first_.take(group, 0).value();
  ASSERT_TRUE(second_.take(group, 1));
  dead_.insert(kSecond);
  EXPECT_TRUE(first_.can_come(seats[0]));
  EXPECT_FALSE(first_.can_come(seats[1]));
  EXPECT_EQ(third_.reserve(8).error().code, ErrorCode::kResourceLimit) << "one party lives";
  first_.leave(seats, 0, group.key);
  EXPECT_TRUE(all_free());
}

TEST_F(GroupSeatsTest, SeatsOfADeadCreatorAreFreeUnlessAPartyLives) {
  const GroupId group = first_.reserve(4).value();
  static_cast<void>(first_.reserve(4).value());
  const Seats seats = second_.take(group, 3).value();
  dead_.insert(kFirst);
  EXPECT_FALSE(second_.can_come(seats[0])) << "nobody can take the seat of a dead creator's group";
  EXPECT_EQ(third_.reserve(5).error().code, ErrorCode::kResourceLimit);
  EXPECT_EQ(third_.reserve(4).value().first_seat, 4U);
  dead_.insert(kSecond);
  EXPECT_EQ(third_.reserve(4).value().first_seat, 0U);
}

TEST_F(GroupSeatsTest, ProcessesThatReserveAndLeaveAtOnceNeverShareASeat) {
  constexpr std::uint64_t kProcesses = 3;
  constexpr int kRounds = 20'000;
  std::array<std::atomic<int>, 8> users{};
  std::atomic<int> shared{0}, groups{0};
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t process = 1; process <= kProcesses; ++process) {
      threads.emplace_back([&, process] {
        GroupSeats own = seats_of(process << 8);
        sim::Rng random(5, process);
        for (int round = 0; round < kRounds && shared == 0; ++round) {
          const auto parties = static_cast<int>(1 + random.below(4));
          const auto group = own.reserve(parties);
          if (!group) continue;
          ++groups;
          Seats seats;
          for (int seat = 0; seat < parties; ++seat) {
            const auto taken = own.take(*group, seat);
            if (users[group->first_seat + seat]++ != 0 || !taken) ++shared;
            if (taken) seats = *taken;
          }
          for (int seat = 0; seat < parties; ++seat) {
            --users[group->first_seat + seat];
            if (!seats.empty()) own.leave(seats, seat, group->key);
          }
        }
      });
    }
  }
  EXPECT_EQ(shared, 0);
  EXPECT_GT(groups, kRounds);
  EXPECT_TRUE(all_free());
}

}  // namespace
}  // namespace gpemu::device
