// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/host_ring.hpp"

#include <array>

#include <gtest/gtest.h>

namespace gpemu::ranks {
namespace {

TEST(HostRing, HasHostsInTheOrderOfTheirFirstRanks) {
  const std::array<std::uint64_t, 6> hosts{70, 50, 70, 60, 50, 70};
  const HostRing ring(hosts);
  EXPECT_EQ(ring.size(), 3);
  EXPECT_EQ(ring.host_of(2), 0);
  EXPECT_EQ(ring.host_of(4), 1);
  EXPECT_EQ(ring.first_rank(2), 3);
  EXPECT_EQ(ring.next(2), 0);
  EXPECT_EQ(ring.previous(0), 2);
  EXPECT_TRUE(ring.is_first(1));
  EXPECT_FALSE(ring.is_first(4));
  EXPECT_EQ(ring.place_on_host(0), 0);
  EXPECT_EQ(ring.place_on_host(5), 2);
}

}  // namespace
}  // namespace gpemu::ranks
