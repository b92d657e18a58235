// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/network.hpp"

#include <gtest/gtest.h>

#include "gpemu/base/units.hpp"

namespace gpemu::topology {
namespace {

TEST(Network, IsAKindAndARate) {
  const auto network = parse_network("rdma:200gbit");
  ASSERT_TRUE(network) << network.error().message;
  EXPECT_EQ(network->kind, LinkClass::kRdma);
  EXPECT_EQ(network->bytes_per_s, 25e9);
  EXPECT_EQ(parse_network("tcp:0.5mbit")->kind, LinkClass::kSocket);
  EXPECT_EQ(parse_network("tcp:0.5mbit")->bytes_per_s, 62500);
  EXPECT_FALSE(parse_network("tcp:0.5mbit")->is_real);
  const auto real = parse_network("real:1gbit");
  ASSERT_TRUE(real) << real.error().message;
  EXPECT_TRUE(real->is_real);
  EXPECT_EQ(real->kind, LinkClass::kSocket);
}

TEST(Network, NothingElseIsOne) {
  for (const char* text :
       {"", "rdma", "rdma:", "rdma:200", "rdma:-1gbit", "rdma:0gbit", "rdma:nangbit",
        "rdma:1e3gbit", "rdma:1 gbit", "real", "ib:200gbit", ":1gbit", "rdma:1gbit:1gbit",
        "rdma:1Gbit", "tcp:0.9kbit", "tcp:1000001gbit"}) {
    EXPECT_EQ(parse_network(text).error().code, ErrorCode::kInvalidArgument) << text;
  }
}

TEST(Network, JoinsEqualComputers) {
  const Network slow{.kind = LinkClass::kSocket, .bytes_per_s = 1.25e9};
  const Network fast{.kind = LinkClass::kSocket, .bytes_per_s = 12.5e9};
  const Fabric one{.ranks = 4, .line_rate = 300e9, .searched_rate = 240e9, .channels = 12};
  const Fabric joined = across(one, 2, slow);
  EXPECT_EQ(joined.ranks, 8);
  EXPECT_EQ(joined.ranks_per_node(), 4);
  EXPECT_EQ(joined.slowest(), LinkClass::kSocket);
  const auto time = [&](const Fabric& fabric) {
    return time_of(fabric, Collective::kAllReduce, 256 * kMiB).time;
  };
  EXPECT_GT(time(joined), time(across(one, 2, fast)));
  EXPECT_GT(time(across(one, 2, fast)), time(one));
  // Whatever the algorithm, each of two computers sends as many bytes as there are to reduce.
  EXPECT_GE(to_seconds(time(joined)), 256.0 * kMiB / slow.bytes_per_s);
}

}  // namespace
}  // namespace gpemu::topology
