// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/collective.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace gpemu::topology {
namespace {

constexpr double kGigabyte = 1e9;

/// 8 A100 or H100 behind NVSwitches.
Fabric switched(Generation generation, int ranks = 8) {
  const bool hopper = generation == Generation::kHopper;
  return {.ranks = ranks,
          .generation = generation,
          .switched = true,
          .line_rate = (hopper ? 450 : 300) * kGigabyte,
          .searched_rate = (hopper ? 370 : 240) * kGigabyte,
          .channels = 24};
}

Fabric two_nodes(Generation generation, double network_rate) {
  Fabric fabric = switched(generation, 16);
  fabric.nodes = 2;
  fabric.network_rate = network_rate;
  return fabric;
}

Choice choice_of(const Fabric& fabric, Bytes bytes, Algorithm algorithm, Protocol protocol) {
  const auto all = choices(fabric, Collective::kAllReduce, bytes);
  const auto found = std::ranges::find_if(all, [&](const Choice& choice) {
    return choice.algorithm == algorithm && choice.protocol == protocol;
  });
  EXPECT_NE(found, all.end());
  return found == all.end() ? Choice{} : *found;
}

// NCCL: 8.4 us + 14 steps of 3.4 us; 1 GiB at 240 GB/s x 8 / 14.
TEST(Choices, OfARingAreWhatNcclExpects) {
  const Choice ring =
      choice_of(switched(Generation::kAmpere), kGiB, Algorithm::kRing, Protocol::kSimple);
  EXPECT_NEAR(ring.base_s, 8.4e-6, 1e-12);
  EXPECT_NEAR(ring.hops_s, 47.6e-6, 1e-12);
  EXPECT_NEAR(ring.expected_s, 56.0e-6 + 1073741824.0 / (240e9 * 8 / 14), 1e-9);
}

TEST(Steps, OfTwoSizesMayBeTheSame) {
  // Two GPUs over PCIe, on two channels, which go round once for each 8 MiB.
  const Fabric fabric{.ranks = 2,
                      .generation = Generation::kVolta,
                      .inside = LinkClass::kPciePeer,
                      .line_rate = 10 * kGigabyte,
                      .searched_rate = 10 * kGigabyte,
                      .channels = 2};
  const auto all_reduce = [&fabric](Bytes one, Bytes other) {
    return steps_of(fabric, Collective::kAllReduce, one) ==
           steps_of(fabric, Collective::kAllReduce, other);
  };
  ASSERT_EQ(choose(fabric, Collective::kAllReduce, kMiB).protocol, Protocol::kSimple);
  EXPECT_TRUE(all_reduce(1'024'000, 2'048'000));
  EXPECT_TRUE(all_reduce(kMiB, 8 * kMiB));
  EXPECT_FALSE(all_reduce(kMiB, 8 * kMiB + 4)) << "a second round";
  EXPECT_FALSE(all_reduce(10'240, 20'480)) << "LL waits for each line of data";
  EXPECT_FALSE(all_reduce(10'240, 2'048'000)) << "another protocol";
  EXPECT_TRUE(all_reduce(10'240, 10'240));
  // https://github.com/NVIDIA/nccl/issues/1417
  EXPECT_TRUE(all_reduce(4 * 409'600, 4 * 409'598));
  EXPECT_FALSE(all_reduce(4 * 409'600, 4 * 32'768'000));
}

// https://github.com/pytorch/pytorch/issues/113376 and https://github.com/NVIDIA/nccl/issues/1938
TEST(Steps, OfATransferAreFewerForASenderThatNeedNotWait) {
  const Fabric fabric{.inside = LinkClass::kNvlink};
  const auto sends = [&](Bytes bytes) {
    return steps_of(fabric, Collective::kSendReceive, bytes, true);
  };
  const auto receives = [&](Bytes bytes) {
    return steps_of(fabric, Collective::kSendReceive, bytes);
  };
  EXPECT_EQ(sends(12).gives, receives(16).needs) << "LL moves 8 bytes at once";
  EXPECT_LT(sends(12).gives, receives(20).needs);
  EXPECT_EQ(sends(20).needs, 0U);
  EXPECT_EQ(sends(100 * kKiB).gives, receives(kMiB / 2).needs) << "one step of Simple";
  EXPECT_LT(sends(kMiB / 2).gives, receives(kMiB / 2 + 1).needs);
  EXPECT_EQ(sends(4 * kMiB).needs, 0U) << "the buffer has room for 8 steps";
  EXPECT_EQ(sends(5 * kMiB).needs, 2U);
  EXPECT_NE(sends(16 * kKiB).protocol, sends(16 * kKiB + 1).protocol);
}

// LL: 6.6 us + 14 x 0.6 us; at most 87.7 GB/s on one node of Ampere.
TEST(Choices, OfLlAreLimitedByTheGeneration) {
  const Choice ring =
      choice_of(switched(Generation::kAmpere), kMiB, Algorithm::kRing, Protocol::kLl);
  EXPECT_NEAR(ring.expected_s, 15.0e-6 + 1048576.0 / (87.7e9 * 8 / 14), 1e-9);
}

// Two of 16 ranks' 30 steps cross the network: 28 x 3.4 us + 2 x 14 us, and 8.4 us, times 1.4.
TEST(Choices, OfTwoNodesCrossTheNetworkTwice) {
  const Choice ring = choice_of(two_nodes(Generation::kAmpere, 200 * kGigabyte), kGiB,
                                Algorithm::kRing, Protocol::kSimple);
  EXPECT_NEAR(ring.base_s + ring.hops_s, 1.4 * (8.4 + 28 * 3.4 + 2 * 14) * 1e-6, 1e-11);
}

TEST(Choices, HaveNoLl128OverPcie) {
  Fabric pcie = switched(Generation::kAmpere, 4);
  pcie.switched = false;
  pcie.inside = LinkClass::kPciePeer;
  for (const Choice& choice : choices(pcie, Collective::kAllReduce, kMiB)) {
    EXPECT_NE(choice.protocol, Protocol::kLl128);
  }
}

TEST(Choose, SmallMessagesUseLlAndLargeOnesSimple) {
  const Fabric fabric = switched(Generation::kAmpere);
  EXPECT_EQ(choose(fabric, Collective::kAllReduce, 4 * kKiB).protocol, Protocol::kLl);
  EXPECT_EQ(choose(fabric, Collective::kAllReduce, kGiB).protocol, Protocol::kSimple);
  EXPECT_EQ(choose(fabric, Collective::kAllReduce, kGiB).algorithm, Algorithm::kRing);
}

// As AWS and stas00 report of H200: rings for 4 GPUs, NVLS from 5 on, and only for all-reduces.
TEST(Choose, NvlsFromFiveGpusOfHopperOn) {
  const auto algorithm = [](int ranks, Collective collective) {
    return choose(switched(Generation::kHopper, ranks), collective, 8 * kGiB).algorithm;
  };
  EXPECT_EQ(algorithm(4, Collective::kAllReduce), Algorithm::kRing);
  EXPECT_EQ(algorithm(5, Collective::kAllReduce), Algorithm::kNvls);
  EXPECT_EQ(algorithm(8, Collective::kAllReduce), Algorithm::kNvls);
  EXPECT_EQ(algorithm(8, Collective::kAllGather), Algorithm::kRing);
  EXPECT_EQ(algorithm(8, Collective::kReduceScatter), Algorithm::kRing);
}

TEST(CollectiveTime, OfOneRankIsNothing) {
  EXPECT_EQ(time_of({.ranks = 1}, Collective::kAllReduce, kGiB).time, Duration(0));
}

/// Only the time of the data depends on the rate, and NCCL chooses as before.
TEST(CollectiveTime, OfASlowLinkIsThatOfItsData) {
  const Fabric fabric{.ranks = 2, .line_rate = 100e9, .searched_rate = 80e9};
  const auto time = [&fabric](Bytes bytes, double share) {
    return time_of(fabric, Collective::kAllReduce, bytes, share);
  };
  const Bytes large = kGiB;
  EXPECT_NEAR(to_seconds(time(large, 0.1).time) / to_seconds(time(large, 1).time), 10, 0.2);
  EXPECT_LT(time(8, 0.1).time, 2 * time(8, 1).time);
  EXPECT_EQ(time(large, 0.1).choice.algorithm, time(large, 1).choice.algorithm);
  EXPECT_EQ(time(large, 0.1).choice.protocol, time(large, 1).choice.protocol);
}

TEST(CollectiveTime, GrowsWithTheSize) {
  for (const Generation generation : {Generation::kAmpere, Generation::kHopper}) {
    for (const Choice& choice : choices(switched(generation), Collective::kAllReduce, kMiB)) {
      double last = 0;
      for (Bytes bytes = 1; bytes <= 64 * kGiB; bytes *= 2) {
        const double now = seconds(switched(generation), Collective::kAllReduce, bytes, choice,
                                   fitted_shares(LinkClass::kNvlink));
        EXPECT_GT(now, last);
        last = now;
      }
    }
  }
}

/// The bus bandwidth in GB/s of a large collective.
double plateau(const Fabric& fabric, Collective collective) {
  constexpr Bytes kLarge = 16 * kGiB;
  const double time = to_seconds(time_of(fabric, collective, kLarge).time);
  return static_cast<double>(kLarge) * bus_factor(collective, fabric.ranks) / time / kGigabyte;
}

// Measured: 229 to 235 on 8 A100, 478 to 482 on 8 H100 and H200, 361 and 363 without NVLS.
TEST(CollectiveTime, ReachesTheMeasuredBandwidths) {
  EXPECT_NEAR(plateau(switched(Generation::kAmpere), Collective::kAllReduce), 232, 0.07 * 232);
  EXPECT_NEAR(plateau(switched(Generation::kHopper), Collective::kAllReduce), 480, 0.07 * 480);
  EXPECT_NEAR(plateau(switched(Generation::kHopper), Collective::kAllGather), 362, 0.07 * 362);
  EXPECT_NEAR(plateau(switched(Generation::kHopper), Collective::kReduceScatter), 362, 0.07 * 362);
}

// With two nodes, each sends all data to the other once: as bus bandwidth, nearly twice the
// network's rate.
TEST(CollectiveTime, OfTwoNodesIsLimitedByTheNetwork) {
  EXPECT_NEAR(plateau(two_nodes(Generation::kHopper, 200 * kGigabyte), Collective::kAllReduce),
              0.95 * 200 * 2 * 15 / 16, 20);
  EXPECT_LT(plateau(two_nodes(Generation::kAmpere, 25 * kGigabyte), Collective::kAllReduce), 50);
}

TEST(CollectiveTime, OfAnAllToAllIsThatOfWhatLeavesANode) {
  Shares shares{};
  for (const Share share : {Share::kRing, Share::kNetwork}) {
    shares[static_cast<std::size_t>(share)] = 1;
  }
  Fabric fabric = two_nodes(Generation::kHopper, 200 * kGigabyte);
  fabric.ranks = 24;
  fabric.nodes = 3;
  const auto time = [&](Collective collective) {
    return seconds(fabric, collective, 24 * kGiB, Choice{}, shares);
  };
  const double gib = static_cast<double>(kGiB);
  // Each of eight ranks sends a part to each of 16 ranks elsewhere, and a gather's root gets those.
  EXPECT_DOUBLE_EQ(time(Collective::kAllToAll), 8 * 16 * gib / (200 * kGigabyte));
  EXPECT_DOUBLE_EQ(time(Collective::kGather), 16 * gib / (200 * kGigabyte));
  EXPECT_DOUBLE_EQ(time(Collective::kAllGather), 23 * gib / (200 * kGigabyte)) << "a ring";
  fabric.ranks = 3;  // One in each node: all that is sent leaves it, as in a ring.
  EXPECT_DOUBLE_EQ(time(Collective::kAllToAll), time(Collective::kAllGather));
  fabric.ranks = 8;
  fabric.nodes = 1;
  EXPECT_DOUBLE_EQ(time(Collective::kAllToAll), time(Collective::kAllGather));
}

TEST(CollectiveTime, OfTreesIsLongOverTcp) {
  Fabric fabric = two_nodes(Generation::kVolta, kGigabyte);
  const auto bandwidth = [&](LinkClass between, Algorithm algorithm) {
    fabric.between = between;
    const Choice choice = choice_of(fabric, kGiB, algorithm, Protocol::kSimple);
    return 1 / seconds(fabric, Collective::kAllReduce, kGiB, choice, fitted_shares(between));
  };
  EXPECT_GT(bandwidth(LinkClass::kRdma, Algorithm::kTree),
            1.5 * bandwidth(LinkClass::kRdma, Algorithm::kRing));
  EXPECT_LT(bandwidth(LinkClass::kSocket, Algorithm::kTree),
            0.9 * bandwidth(LinkClass::kSocket, Algorithm::kRing));
}

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllReduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllGather, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kReduceScatter, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllToAll, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kBroadcast, 8), 1);
}

}  // namespace
}  // namespace gpemu::topology
