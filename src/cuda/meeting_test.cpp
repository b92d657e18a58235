// SPDX-License-Identifier: Apache-2.0
#include "meeting.hpp"

#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::cuda {
namespace {

std::optional<SocketAddress> choose(std::vector<std::pair<std::string, int>> interfaces,
                                    std::string_view named, std::string_view family = "") {
  std::vector<InterfaceAddress> addresses;
  for (const auto& [name, kind] : interfaces) {
    SocketAddress address{.family = static_cast<std::uint16_t>(kind)};
    address.number[0] = static_cast<std::uint8_t>(addresses.size());
    addresses.push_back({name, address});
  }
  return choose_address(addresses, named, family);
}
/// Returns the index of the chosen interface, -1 for none.
int chosen(std::vector<std::pair<std::string, int>> interfaces, std::string_view named,
           std::string_view family = "") {
  const auto address = choose(std::move(interfaces), named, family);
  return address ? address->number[0] : -1;
}

TEST(Meeting, ChoosesTheInterfaceAsNcclDoes) {
  const std::vector<std::pair<std::string, int>> all = {{"lo", AF_INET},    {"docker0", AF_INET},
                                                        {"eth0", AF_INET6}, {"eth0", AF_INET},
                                                        {"eth01", AF_INET}, {"ib0", AF_INET}};
  EXPECT_EQ(chosen(all, ""), 5);
  EXPECT_EQ(chosen(all, "eth"), 2);
  EXPECT_EQ(chosen(all, "eth", "AF_INET"), 3);
  EXPECT_EQ(chosen(all, "=eth01"), 4);
  EXPECT_EQ(chosen(all, "nothing,docker"), 1);
  EXPECT_EQ(chosen(all, "^lo,docker"), 2);
  EXPECT_EQ(chosen(all, "^=lo,eth0,ib0"), 1);
  EXPECT_EQ(chosen(all, "nothing"), -1);
  EXPECT_EQ(chosen({{"lo", AF_INET}, {"docker0", AF_INET}, {"eth0", AF_INET}}, ""), 2);
  EXPECT_EQ(chosen({{"lo", AF_INET}, {"docker0", AF_INET}}, ""), 1);
  EXPECT_EQ(chosen({{"lo", AF_INET}}, ""), 0);
  EXPECT_EQ(chosen({}, ""), -1);
}

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
SocketAddress free_address() {
  SocketAddress loopback{.family = AF_INET};
  loopback.number = {127, 0, 0, 1};
  const auto listener = listen_at(loopback, 1);
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

TEST(Meeting, ReadsAddresses) {
  const auto read = [](const char* text) {
    const auto address = parse_address(text);
    return address ? address->to_string() : "error";
  };
  EXPECT_EQ(read("127.0.0.1:80"), "127.0.0.1:80");
  EXPECT_EQ(read("[::1]:29500"), "[::1]:29500");
  for (const char* wrong :
       {"", ":", "127.0.0.1", "127.0.0.1:", ":80", "::1:80", "[127.0.0.1]:80", "127.0.0.1:0",
        "127.0.0.1:http", "127.0.0.1:70000", "[::1:80", "[]:1"}) {
    EXPECT_EQ(read(wrong), "error") << wrong;
  }
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
}  // namespace gpemu::cuda
