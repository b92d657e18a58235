// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/meeting.hpp"

#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/net/socket.hpp"

namespace gpemu::ranks {
namespace {

Meeting::Record record_of(int number) {
  Meeting::Record record{};
  record.front() = static_cast<std::byte>(number);
  record.back() = static_cast<std::byte>(number + 1);
  return record;
}

Meeting::Id opened() {
  const auto id = Meeting::open();
  EXPECT_TRUE(id.has_value()) << (id ? "" : id.error().message);
  return id.value_or(Meeting::Id());
}

TEST(Meeting, EachGetsTheRecordsOfAllInTheOrderOfRanks) {
  const Meeting::Id id = opened();
  std::vector<Meeting::Visit> visits;
  for (const int rank : {2, 0, 1}) {
    auto visit = Meeting::visit({.id = id, .rank = rank, .ranks = 3}, record_of(rank));
    ASSERT_TRUE(visit.has_value()) << visit.error().message;
    visits.push_back(*std::move(visit));
  }
  for (Meeting::Visit& visit : visits) {
    const auto records = visit.records();
    ASSERT_TRUE(records.has_value()) << records.error().message;
    EXPECT_EQ(*records, (std::vector{record_of(0), record_of(1), record_of(2)}));
  }
}

TEST(Meeting, TopicsAreSeparate) {
  const Meeting::Id id = opened();
  auto one = Meeting::visit({.id = id, .topic = {1}, .rank = 0, .ranks = 1}, record_of(1));
  auto two = Meeting::visit({.id = id, .topic = {2}, .rank = 0, .ranks = 1}, record_of(2));
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->records()->front(), record_of(1));
  EXPECT_EQ(two->records()->front(), record_of(2));
}

TEST(Meeting, OtherProcessesCome) {
  const Meeting::Id id = opened();
  const pid_t child = ::fork();
  if (child == 0) {
    auto visit = Meeting::visit({.id = id, .rank = 1, .ranks = 2}, record_of(1));
    const auto records = visit ? visit->records() : std::unexpected(visit.error());
    ::_exit(records && records->front() == record_of(0) ? 0 : 1);
  }
  auto visit = Meeting::visit({.id = id, .rank = 0, .ranks = 2}, record_of(0));
  ASSERT_TRUE(visit.has_value());
  EXPECT_EQ(visit->records()->back(), record_of(1));
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Meeting, TwoWithTheSameRankAreAnErrorForAll) {
  const Meeting::Id id = opened();
  auto one = Meeting::visit({.id = id, .rank = 0, .ranks = 3}, record_of(0));
  auto other = Meeting::visit({.id = id, .rank = 0, .ranks = 3}, record_of(0));
  ASSERT_TRUE(one && other);
  EXPECT_EQ(one->records().error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(other->records().error().code, ErrorCode::kInvalidArgument);
  auto late = Meeting::visit({.id = id, .rank = 1, .ranks = 3}, record_of(0));
  ASSERT_TRUE(late);
  EXPECT_EQ(late->records().error().code, ErrorCode::kInvalidArgument);
}

TEST(Meeting, ARankThatGoesIsAnErrorForAll) {
  const Meeting::Id id = opened();
  auto one = Meeting::visit({.id = id, .rank = 0, .ranks = 3}, record_of(0));
  {
    auto gone = Meeting::visit({.id = id, .rank = 1, .ranks = 3}, record_of(0));
    ASSERT_TRUE(gone);
  }
  EXPECT_EQ(one->records().error().code, ErrorCode::kUnavailable);
}

TEST(Meeting, AVisitCanBeCancelled) {
  auto visit = Meeting::visit({.id = opened(), .rank = 0, .ranks = 2}, record_of(0));
  ASSERT_TRUE(visit);
  int asked = 0;
  EXPECT_EQ(visit->records([&asked] { return ++asked == 2; }).error().code,
            ErrorCode::kInterrupted);
  EXPECT_EQ(asked, 2);
}

/// Returns an address of this machine at which nobody listens.
net::SocketAddress free_address() {
  net::SocketAddress loopback{.family = AF_INET};
  loopback.number = {127, 0, 0, 1};
  const auto listener = net::listen_at(loopback, 1);
  EXPECT_TRUE(listener.has_value());
  return listener ? listener->address : loopback;
}

TEST(Meeting, IsAtANamedAddressWhileItHasAHost) {
  const Meeting::Id id = Meeting::at(free_address());
  const auto visit = [&id](int rank) {
    return Meeting::visit({.id = id, .rank = rank, .ranks = 2}, record_of(rank));
  };
  EXPECT_EQ(visit(0).error().code, ErrorCode::kNotFound) << "nobody listens yet";
  for (const int time : {0, 1}) {
    auto host = Meeting::host(id);
    ASSERT_TRUE(host.has_value()) << host.error().message << ", time " << time;
    EXPECT_EQ(Meeting::host(id).error().code, ErrorCode::kUnavailable) << "it has one";
    auto one = visit(0), other = visit(1);
    ASSERT_TRUE(one && other);
    EXPECT_EQ(one->records()->back(), record_of(1));
    EXPECT_EQ(other->records()->front(), record_of(0));
  }
  EXPECT_EQ(visit(0).error().code, ErrorCode::kNotFound);
}

TEST(Meeting, AFailureAtANamedAddressDoesNotStay) {
  const Meeting::Id id = Meeting::at(free_address());
  const auto host = Meeting::host(id);
  ASSERT_TRUE(host.has_value());
  for (const ErrorCode expected : {ErrorCode::kUnavailable, ErrorCode::kUnavailable}) {
    auto one = Meeting::visit({.id = id, .rank = 0, .ranks = 3}, record_of(0));
    static_cast<void>(Meeting::visit({.id = id, .rank = 1, .ranks = 3}, record_of(0)));
    ASSERT_TRUE(one);
    EXPECT_EQ(one->records().error().code, expected);
  }
  auto alone = Meeting::visit({.id = id, .rank = 0, .ranks = 1}, record_of(5));
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->records()->front(), record_of(5));
}

TEST(Meeting, StrangersAreSentAway) {
  Meeting::Id id = opened();
  ++id.key[3];
  auto stranger = Meeting::visit({.id = id, .rank = 0, .ranks = 1}, record_of(0));
  ASSERT_TRUE(stranger);
  EXPECT_EQ(stranger->records().error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Meeting::visit({.rank = 0, .ranks = 1}, record_of(0)).error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpemu::ranks
