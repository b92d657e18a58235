// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

#include "test_node.hpp"

namespace {

/// A group of two parties, the first with the fixture's stream, the second with one of its own.
class CApiRendezvous : public CApi {
 protected:
  void SetUp() override {
    CApi::SetUp();
    ASSERT_EQ(gpemu_device_open(node_, 1, &other_device_), GPEMU_OK) << gpemu_last_error();
    ASSERT_EQ(gpemu_stream_create(other_device_, GPEMU_STREAM_NON_BLOCKING, &other_stream_),
              GPEMU_OK);
    ASSERT_EQ(gpemu_rendezvous_create_group(node_, 2, id_.data()), GPEMU_OK) << gpemu_last_error();
    ASSERT_EQ(gpemu_rendezvous_join(node_, id_.data(), 0, &first_), GPEMU_OK) << gpemu_last_error();
    ASSERT_EQ(gpemu_rendezvous_join(node_, id_.data(), 1, &second_), GPEMU_OK)
        << gpemu_last_error();
  }
  void TearDown() override {
    gpemu_rendezvous_leave(second_);
    gpemu_rendezvous_leave(first_);
    gpemu_stream_destroy(other_stream_);
    gpemu_device_close(other_device_);
    CApi::TearDown();
  }

  std::array<char, GPEMU_GROUP_ID_BYTES> id_{};
  gpemu_device* other_device_ = nullptr;
  gpemu_stream* other_stream_ = nullptr;
  gpemu_rendezvous* first_ = nullptr;
  gpemu_rendezvous* second_ = nullptr;
};

TEST_F(CApiRendezvous, ARoundEndsForAllAfterTheLargestCost) {
  gpemu_event* end = nullptr;
  ASSERT_EQ(gpemu_event_create(&end), GPEMU_OK);
  ASSERT_EQ(gpemu_stream_launch(other_stream_, 3 * kMillisecond, nullptr), GPEMU_OK);
  ASSERT_EQ(gpemu_rendezvous_arrive(first_, stream_, 2 * kMillisecond, end), GPEMU_OK);
  EXPECT_EQ(gpemu_event_query(end), GPEMU_ERROR_NOT_READY);
  ASSERT_EQ(gpemu_rendezvous_arrive(second_, other_stream_, kMillisecond, nullptr), GPEMU_OK);
  ASSERT_EQ(gpemu_rendezvous_synchronize(first_, stream_, -1), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(now(), 5 * kMillisecond);
  int64_t time_ns = 0;
  EXPECT_EQ(gpemu_event_time(end, &time_ns), GPEMU_OK);
  EXPECT_EQ(time_ns, 5 * kMillisecond);
  gpemu_event_destroy(end);
}

TEST_F(CApiRendezvous, WaitsNoLongerThanItsTimeout) {
  ASSERT_EQ(gpemu_rendezvous_arrive(first_, stream_, kMillisecond, nullptr), GPEMU_OK);
  EXPECT_EQ(gpemu_rendezvous_synchronize(first_, stream_, 7 * kMillisecond), GPEMU_ERROR_NOT_READY);
  EXPECT_EQ(now(), 7 * kMillisecond);
}

TEST_F(CApiRendezvous, APartyThatLeavesFailsTheOther) {
  ASSERT_EQ(gpemu_rendezvous_arrive(first_, stream_, kMillisecond, nullptr), GPEMU_OK);
  EXPECT_EQ(gpemu_rendezvous_check(first_), GPEMU_OK);
  gpemu_rendezvous_leave(second_);
  second_ = nullptr;
  EXPECT_EQ(gpemu_rendezvous_check(first_), GPEMU_ERROR_UNAVAILABLE);
  EXPECT_NE(std::string(gpemu_last_error()).find("party 1 of a group of 2"), std::string::npos)
      << gpemu_last_error();
  EXPECT_EQ(gpemu_rendezvous_synchronize(first_, stream_, -1), GPEMU_ERROR_UNAVAILABLE);
  EXPECT_EQ(gpemu_rendezvous_arrive(first_, stream_, 1, nullptr), GPEMU_ERROR_UNAVAILABLE);
}

TEST_F(CApiRendezvous, CountsTheRoundsWhoseEndsAreKnown) {
  gpemu_round_statistics statistics{.struct_size = sizeof statistics};
  ASSERT_EQ(gpemu_rendezvous_arrive(first_, stream_, kMillisecond, nullptr), GPEMU_OK);
  ASSERT_EQ(gpemu_rendezvous_statistics(first_, &statistics), GPEMU_OK);
  EXPECT_EQ(statistics.rounds, 0);
  ASSERT_EQ(gpemu_rendezvous_arrive(second_, other_stream_, kMillisecond, nullptr), GPEMU_OK);
  ASSERT_EQ(gpemu_rendezvous_statistics(first_, &statistics), GPEMU_OK);
  EXPECT_EQ(statistics.struct_size, sizeof statistics);
  EXPECT_EQ(statistics.rounds, 2) << "one for each party of this process";
  EXPECT_EQ(statistics.latest_ns, 0) << "known before it ended";
}

TEST_F(CApiRendezvous, FillsStatisticsOfAnOlderVersionOnly) {
  gpemu_round_statistics statistics{.struct_size = offsetof(gpemu_round_statistics, latest_ns),
                                    .latest_ns = -7};
  EXPECT_EQ(gpemu_rendezvous_statistics(first_, &statistics), GPEMU_OK);
  EXPECT_EQ(statistics.latest_ns, -7);
  statistics.struct_size = sizeof statistics + 1;
  EXPECT_EQ(gpemu_rendezvous_statistics(first_, &statistics), GPEMU_ERROR_INVALID_ARGUMENT);
}

TEST_F(CApiRendezvous, RefusesBadGroupsAndSeats) {
  std::array<char, GPEMU_GROUP_ID_BYTES> id{};
  EXPECT_EQ(gpemu_rendezvous_create_group(node_, 0, id.data()), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_create_group(node_, INT32_MAX, id.data()),
            GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(id[0], '\0');
  gpemu_rendezvous* party = nullptr;
  EXPECT_EQ(gpemu_rendezvous_join(node_, id_.data(), 1, &party), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_join(node_, id_.data(), 2, &party), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_join(node_, id_.data(), -1, &party), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_join(node_, "no id", 0, &party), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_join(node_, "1-2-3", 0, &party), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(party, nullptr);
}

TEST_F(CApiRendezvous, RefusesANegativeCost) {
  EXPECT_EQ(gpemu_rendezvous_arrive(first_, stream_, -1, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_stream_query(stream_), GPEMU_OK) << "nothing was queued";
}

TEST_F(CApiRendezvous, AnswersNullWithAnError) {
  std::array<char, GPEMU_GROUP_ID_BYTES> id{};
  gpemu_round_statistics statistics{.struct_size = sizeof statistics};
  gpemu_rendezvous* party = nullptr;
  EXPECT_EQ(gpemu_rendezvous_create_group(nullptr, 1, id.data()), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_create_group(node_, 1, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_join(nullptr, id_.data(), 0, &party), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_join(node_, nullptr, 0, &party), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_join(node_, id_.data(), 0, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_arrive(nullptr, stream_, 1, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_arrive(first_, nullptr, 1, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_check(nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_synchronize(nullptr, stream_, 0), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_synchronize(first_, nullptr, 0), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_statistics(nullptr, &statistics), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_rendezvous_statistics(first_, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  gpemu_rendezvous_leave(nullptr);
}

}  // namespace
