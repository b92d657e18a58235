// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/traffic.hpp"

#include <gtest/gtest.h>

#include "gpemu/topology/network.hpp"

namespace gpemu::topology {
namespace {

constexpr Choice kRing{.algorithm = Algorithm::kRing, .protocol = Protocol::kSimple};
constexpr Choice kTree{.algorithm = Algorithm::kTree, .protocol = Protocol::kSimple};

Fabric computers_of(int ranks, int computers, double bytes_per_s = 125e6) {
  return across({.ranks = ranks, .line_rate = 300e9, .searched_rate = 240e9, .channels = 12},
                computers, {.kind = LinkClass::kSocket, .bytes_per_s = bytes_per_s});
}

Traffic sent(const Fabric& fabric, Collective collective, Bytes bytes, RingPlace place = {},
             const Choice& choice = kRing) {
  return traffic_of(fabric, collective, bytes, choice, place);
}

TEST(Traffic, OfAnAllReduceIsThatOfOneRankInTheRing) {
  EXPECT_EQ(sent(computers_of(1, 2), Collective::kAllReduce, 1000),
            (Traffic{.sent = 1000, .own = 500}));
  EXPECT_EQ(sent(computers_of(1, 4), Collective::kAllReduce, 1000),
            (Traffic{.sent = 1500, .own = 250}));
  // 2 (n - 1) / n of the data for n = 16 ranks; the first 8 of 16 parts are the computer's own.
  EXPECT_EQ(sent(computers_of(8, 2), Collective::kAllReduce, 1600),
            (Traffic{.sent = 3000, .own = 800}));
}

TEST(Traffic, OfTreesBetweenTwoComputersIsTheDataOnce) {
  EXPECT_EQ(sent(computers_of(8, 2), Collective::kAllReduce, 1600, {}, kTree),
            (Traffic{.sent = 1600, .own = 800}));
  // Up and down two levels.
  EXPECT_EQ(sent(computers_of(8, 4), Collective::kAllReduce, 1600, {}, kTree),
            (Traffic{.sent = 2400, .own = 600}));
}

TEST(Traffic, CountsTheFlagsOfTheProtocol) {
  Choice choice = kRing;
  choice.protocol = Protocol::kLl;
  EXPECT_EQ(sent(computers_of(1, 2), Collective::kAllReduce, 1000, {}, choice).sent, 2000U);
  choice.protocol = Protocol::kLl128;
  EXPECT_EQ(sent(computers_of(1, 2), Collective::kAllReduce, 1500, {}, choice).sent, 1600U);
}

TEST(Traffic, OfAGatherOfAllAndAReductionToAllIsHalfAnAllReduce) {
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
    EXPECT_EQ(sent(computers_of(2, 2), collective, 4000), (Traffic{.sent = 3000, .own = 2000}));
  }
}

TEST(Traffic, OfABroadcastEndsBeforeTheRoot) {
  const Fabric fabric = computers_of(2, 3);
  const auto at = [&](int computer, int root_computer, int root_rank) {
    return sent(fabric, Collective::kBroadcast, 10, {computer, root_computer, root_rank});
  };
  EXPECT_EQ(at(1, 1, 0), (Traffic{.sent = 10, .own = 10}));
  EXPECT_EQ(at(2, 1, 0), (Traffic{.sent = 10, .own = 0}));
  EXPECT_EQ(at(0, 1, 0), Traffic{});
  // The rank before the root in the ring is on the root's computer.
  EXPECT_EQ(at(0, 1, 1), (Traffic{.sent = 10, .own = 0}));
}

TEST(Traffic, OfAReductionEndsAtTheRoot) {
  const Fabric fabric = computers_of(2, 3);
  const auto at = [&](int computer, int root_computer, int root_rank) {
    return sent(fabric, Collective::kReduce, 10, {computer, root_computer, root_rank});
  };
  EXPECT_EQ(at(1, 0, 1), (Traffic{.sent = 10, .own = 10}));
  EXPECT_EQ(at(2, 0, 1), (Traffic{.sent = 10, .own = 0}));
  EXPECT_EQ(at(0, 0, 1), Traffic{});
  // The ring begins with the rank after the root, which is on the root's computer.
  EXPECT_EQ(at(0, 0, 0), (Traffic{.sent = 10, .own = 10}));
  EXPECT_EQ(at(1, 0, 0), (Traffic{.sent = 10, .own = 0}));
}

TEST(Traffic, OfAnAllToAllIsWhatLeavesTheComputer) {
  // Each of two ranks sends a quarter of its 400 bytes to each of two ranks elsewhere.
  EXPECT_EQ(sent(computers_of(2, 2), Collective::kAllToAll, 400),
            (Traffic{.sent = 400, .own = 400}));
}

TEST(Traffic, OfATransferGoesOneWay) {
  const Fabric pair = computers_of(1, 2);
  EXPECT_EQ(sent(pair, Collective::kSendReceive, 7, {0}), (Traffic{.sent = 7, .own = 7}));
  EXPECT_EQ(sent(pair, Collective::kSendReceive, 7, {1}), Traffic{});
}

TEST(Traffic, OfAGatherAndAScatterPassesOtherComputers) {
  const Fabric fabric = computers_of(2, 3);
  EXPECT_EQ(traffic_of_gather(fabric, 600, {0, 0}), Traffic{});
  EXPECT_EQ(traffic_of_gather(fabric, 600, {1, 0}), (Traffic{.sent = 200, .own = 200}));
  EXPECT_EQ(traffic_of_gather(fabric, 600, {2, 0}), (Traffic{.sent = 400, .own = 200}));
  EXPECT_EQ(traffic_of_scatter(fabric, 600, {0, 0}), (Traffic{.sent = 400, .own = 400}));
  EXPECT_EQ(traffic_of_scatter(fabric, 600, {1, 0}), (Traffic{.sent = 200, .own = 0}));
  EXPECT_EQ(traffic_of_scatter(fabric, 600, {2, 0}), Traffic{});
}

TEST(Traffic, LeavesTheTimeOfTheRest) {
  constexpr Bytes kBytes = 64 * kMiB;
  const Fabric slow = computers_of(2, 2, 125e6);
  const Choice choice = choose(slow, Collective::kAllReduce, kBytes);
  const Duration beside = time_beside_network(slow, Collective::kAllReduce, kBytes, choice);
  EXPECT_GT(beside, Duration());
  EXPECT_LT(beside, time_of(slow, Collective::kAllReduce, kBytes).time);
  EXPECT_EQ(beside,
            time_beside_network(computers_of(2, 2, 1e6), Collective::kAllReduce, kBytes, choice));
}

}  // namespace
}  // namespace gpemu::topology
