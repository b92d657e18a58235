// SPDX-License-Identifier: Apache-2.0
#include "party.hpp"

#include <array>

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
  void add(Party& party, Duration cost) { party.add({.lane = nullptr, .mark = {}, .cost = cost}); }

  std::array<layout::SeatRecord, 2> seats_{};
  Party first_{seats_, 0};
  Party second_{seats_, 1};
  TimePoint now_ = time_of(1s);
};

TEST_F(PartyTest, WithoutRoundsThereIsNothingToPublishAndNoEnd) {
  EXPECT_EQ(first_.unpublished(), nullptr);
  EXPECT_EQ(first_.end(now_), std::nullopt);
  EXPECT_FALSE(first_.lacks(seats_[1]));
}

TEST_F(PartyTest, ARoundEndsWhenBothHavePublished) {
  add(first_, 5us);
  add(second_, 7us);
  first_.publish(time_of(10us));
  EXPECT_EQ(first_.end(now_), std::nullopt);
  EXPECT_EQ(first_.earliest_end(now_), time_of(15us));
  EXPECT_TRUE(first_.lacks(seats_[1]));
  second_.publish(time_of(30us));
  EXPECT_FALSE(first_.lacks(seats_[1]));
  EXPECT_EQ(first_.end(now_), time_of(37us));
  EXPECT_EQ(second_.end(now_), time_of(37us));
}

TEST_F(PartyTest, ARoundEndsAfterTheOneBefore) {
  for (Party* const party : {&first_, &second_}) {
    add(*party, 50us);
    add(*party, 1us);
    party->publish(time_of(0us));
    party->publish(time_of(0us));
  }
  first_.pop(*first_.end(now_));
  EXPECT_EQ(first_.end(now_), time_of(51us));
}

TEST_F(PartyTest, PublishesOnlySoFarAhead) {
  for (std::size_t i = 0; i < 2 * layout::kArrivalsAhead; ++i) add(first_, 1us);
  std::size_t published = 0;
  for (; first_.unpublished() != nullptr; ++published) first_.publish(time_of(0us));
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
    while (first_.unpublished() != nullptr) first_.publish(TimePoint());
    if (second_.unpublished() != nullptr) second_.publish(TimePoint());
    end += Duration(1 + i);
    ASSERT_EQ(second_.end(now_), end) << i;
    ASSERT_EQ(first_.end(now_), end) << i;
    first_.pop(end);
    while (first_.unpublished() != nullptr) first_.publish(TimePoint());
    second_.pop(end);
  }
}

TEST_F(PartyTest, WhatIsFurtherAwayThanAnybodyQueuesIsNoArrival) {
  add(first_, 1us);
  add(second_, 1us);
  first_.publish(time_of(0us));
  second_.publish(now_ + layout::kLongestQueue + 1ns);
  EXPECT_EQ(first_.end(now_), std::nullopt);
  EXPECT_EQ(first_.earliest_end(now_), time_of(1us));
}

}  // namespace
}  // namespace gpemu::device
