// SPDX-License-Identifier: Apache-2.0
#include "party.hpp"

#include <array>
#include <optional>

#include <gtest/gtest.h>

#include "layout.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

TimePoint time_of(Duration time) {
  return TimePoint(time);
}

/// Two parties with seats in memory of the test.
class PartyTest : public testing::Test {
 protected:
  void add(Party& party, Duration cost) { party.add().cost = cost; }
  /// Returns when the first round ends, if that is known.
  static std::optional<TimePoint> end_of(const Party& party, TimePoint now) {
    const auto times = party.times(now);
    return times ? std::optional(times->end) : std::nullopt;
  }

  std::array<layout::SeatRecord, 2> seats_{};
  Party first_{seats_, 0};
  Party second_{seats_, 1};
  TimePoint now_ = time_of(1s);
};

TEST_F(PartyTest, WithoutRoundsThereIsNothingToPublishAndNoEnd) {
  EXPECT_EQ(first_.unpublished(), nullptr);
  EXPECT_EQ(end_of(first_, now_), std::nullopt);
  EXPECT_FALSE(first_.lacks(seats_[1], now_));
}

TEST_F(PartyTest, ARoundEndsWhenBothHavePublished) {
  add(first_, 5us);
  add(second_, 7us);
  first_.publish({.time = time_of(10us)}, now_);
  EXPECT_EQ(end_of(first_, now_), std::nullopt);
  EXPECT_EQ(first_.expected_end(now_).end, time_of(15us));
  EXPECT_TRUE(first_.lacks(seats_[1], now_));
  second_.publish({.time = time_of(30us)}, now_);
  EXPECT_FALSE(first_.lacks(seats_[1], now_));
  EXPECT_EQ(end_of(first_, now_), time_of(37us));
  EXPECT_EQ(end_of(second_, now_), time_of(37us));
}

TEST_F(PartyTest, EachPartySeesItsOwnArrivalAndWhoCameLast) {
  for (int round = 0; round < 2; ++round) {
    add(first_, 5us);
    add(second_, 7us);
  }
  first_.publish({.time = time_of(10us)}, now_);
  second_.publish({.time = time_of(30us)}, now_);
  const RoundTimes first = first_.times(now_).value();
  EXPECT_EQ(first.arrived, time_of(10us));
  EXPECT_EQ(first.start, time_of(30us));
  EXPECT_EQ(first.end, time_of(37us));
  EXPECT_EQ(first.last, 1U);
  EXPECT_EQ(second_.times(now_).value().arrived, time_of(30us));
  for (Party* const party : {&first_, &second_}) {
    party->pop(time_of(37us));
    party->publish({.time = time_of(20us)}, now_);
  }
  const RoundTimes next = first_.times(now_).value();
  EXPECT_EQ(next.arrived, time_of(37us)) << "the group was busy until then";
  EXPECT_EQ(next.start, time_of(37us));
}

TEST_F(PartyTest, ADamagedSeatIsRepaired) {
  for (Party* const party : {&first_, &second_}) {
    add(*party, 5us);
    party->publish({.time = time_of(10us)}, now_);
  }
  seats_[0].count = 77;
  seats_[0].changes = 7;
  for (layout::ArrivalRecord& arrival : seats_[0].arrivals) {
    arrival.time_ns = Duration(100h).count();
    arrival.rounds_back = 9;
  }
  EXPECT_EQ(end_of(second_, now_), std::nullopt);
  first_.repair();
  EXPECT_EQ(end_of(first_, now_), time_of(15us));
  EXPECT_EQ(end_of(second_, now_), time_of(15us));
  EXPECT_EQ(seats_[0].count, 1U);
}

TEST_F(PartyTest, ARoundEndsAfterTheOneBefore) {
  for (Party* const party : {&first_, &second_}) {
    add(*party, 50us);
    add(*party, 1us);
    party->publish({.time = time_of(0us)}, now_);
    party->publish({.time = time_of(0us)}, now_);
  }
  first_.pop(*end_of(first_, now_));
  EXPECT_EQ(end_of(first_, now_), time_of(51us));
}

TEST_F(PartyTest, PublishesOnlySoFarAhead) {
  for (std::size_t i = 0; i < 2 * layout::kArrivalsAhead; ++i) add(first_, 1us);
  std::size_t published = 0;
  for (; first_.unpublished() != nullptr; ++published) first_.publish({.time = time_of(0us)}, now_);
  EXPECT_EQ(published, layout::kArrivalsAhead);
}

TEST_F(PartyTest, NobodyNeedsAnArrivalThatIsOverwritten) {
  // The second is always as far behind as it can be.
  for (int i = 0; i < 100; ++i) {
    add(first_, Duration(1 + i));
    add(second_, Duration(1));
  }
  TimePoint end{};
  for (int i = 0; i < 100; ++i) {
    while (first_.unpublished() != nullptr) first_.publish({.time = TimePoint()}, now_);
    if (second_.unpublished() != nullptr) second_.publish({.time = TimePoint()}, now_);
    end += Duration(1 + i);
    ASSERT_EQ(end_of(second_, now_), end) << i;
    ASSERT_EQ(end_of(first_, now_), end) << i;
    first_.pop(end);
    while (first_.unpublished() != nullptr) first_.publish({.time = TimePoint()}, now_);
    second_.pop(end);
  }
}

TEST_F(PartyTest, WhatIsFurtherAwayThanAnybodyQueuesIsNoArrival) {
  add(first_, 1us);
  add(second_, 1us);
  first_.publish({.time = time_of(0us)}, now_);
  second_.publish({.time = now_ + layout::kLongestQueue + 1ns}, now_);
  EXPECT_EQ(end_of(first_, now_), std::nullopt);
  EXPECT_EQ(first_.expected_end(now_).end, time_of(1us));
}

TEST_F(PartyTest, AnArrivalCountsOnceItIsFinal) {
  add(first_, 5us);
  add(second_, 5us);
  first_.publish({.time = now_ + 1us, .is_final = false}, now_);
  second_.publish({.time = now_, .is_final = false}, now_);
  EXPECT_EQ(end_of(first_, now_), std::nullopt);
  EXPECT_TRUE(first_.expected_end(now_).all_come);
  EXPECT_EQ(first_.expected_end(now_).end, now_ + 6us);
  EXPECT_TRUE(first_.lacks(seats_[0], now_));
  EXPECT_EQ(end_of(first_, now_ + 1us), now_ + 6us);
}

TEST_F(PartyTest, AnArrivalMayDependOnAnEarlierRound) {
  for (Party* const party : {&first_, &second_}) {
    for (int i = 0; i < 3; ++i) add(*party, 5us);
    party->publish({.time = time_of(10us), .is_final = false}, now_);
  }
  first_.publish({.time = time_of(0us), .after = 7us, .rounds_back = 1, .is_final = false}, now_);
  second_.publish({.time = time_of(30us), .is_final = false}, now_);
  first_.publish({.time = time_of(0us), .after = 50us, .rounds_back = 2, .is_final = false}, now_);
  second_.publish({.time = time_of(0us), .is_final = false}, now_);
  for (const Duration end : {15us, 35us, 70us}) {
    ASSERT_EQ(end_of(second_, now_), time_of(end));
    second_.pop(time_of(end));
  }
}

TEST_F(PartyTest, WhatIsTakenBackDoesNotCountUntilItIsPublishedAgain) {
  for (Party* const party : {&first_, &second_}) {
    for (int i = 0; i < 2; ++i) add(*party, 5us);
    party->publish({.time = now_ + 10us, .is_final = false}, now_);
    party->publish({.time = now_ + 20us, .is_final = false}, now_);
  }
  first_.take_back(now_);
  EXPECT_FALSE(first_.took_back_too_late(now_));
  EXPECT_EQ(end_of(second_, now_ + 10us), std::nullopt);
  EXPECT_FALSE(second_.expected_end(now_ + 10us).all_come);
  first_.publish({.time = now_ + 12us, .is_final = false}, now_);
  EXPECT_EQ(end_of(second_, now_ + 12us), now_ + 17us);
}

TEST_F(PartyTest, WhatOthersMayHaveUsedCannotBeTakenBack) {
  for (Party* const party : {&first_, &second_}) {
    for (int i = 0; i < 2; ++i) add(*party, 5us);
    party->publish({.time = now_ + 10us, .is_final = false}, now_);
    party->publish({.time = now_ + 20us, .is_final = false}, now_);
  }
  first_.take_back(now_);
  EXPECT_TRUE(first_.took_back_too_late(now_ + 10us));
  first_.restore();
  EXPECT_EQ(end_of(second_, now_ + 10us), now_ + 15us);
  // The first arrival is final now; the second is, once the first round has ended.
  first_.take_back(now_ + 10us);
  EXPECT_FALSE(first_.took_back_too_late(now_ + 14us));
  EXPECT_TRUE(first_.took_back_too_late(now_ + 15us));
  EXPECT_EQ(end_of(second_, now_ + 10us), now_ + 15us);
}

TEST_F(PartyTest, ARoundIsAsLateAsItsLastArrivalWasPublished) {
  add(first_, 5us);
  add(second_, 5us);
  first_.publish({.time = now_}, now_);
  second_.publish({.time = now_}, now_ + 8us);
  EXPECT_EQ(first_.lateness(now_ + 5us), 3us);
  EXPECT_EQ(first_.lateness(now_ + 9us), 0us);
}

}  // namespace
}  // namespace gpemu::device
