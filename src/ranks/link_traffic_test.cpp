// SPDX-License-Identifier: Apache-2.0
// That copies and collectives are counted: tests/shims/peers_test.cpp and
// tests/integration/communication_test.py.
#include "gpemu/ranks/link_traffic.hpp"

#include <gtest/gtest.h>

namespace gpemu::ranks {
namespace {

using device::LinkTraffic;

/// 1200 bytes on each of four ranks; rank 2 is the root.
LinkTraffic of(gpemu_cuda_collective kind, int rank) {
  return traffic_of({.kind = kind, .type = GPEMU_CUDA_COMM_FP32, .root = 2, .count = 300},
                    {rank, 4});
}

TEST(TrafficOfCollectives, IsThatOfRings) {
  EXPECT_EQ(of(GPEMU_CUDA_ALL_REDUCE, 0).sent, 1800) << "2 * 3/4 of the buffer";
  EXPECT_EQ(of(GPEMU_CUDA_ALL_GATHER, 0).sent, 3600) << "what the three others lack";
  EXPECT_EQ(of(GPEMU_CUDA_REDUCE_SCATTER, 3).received, 3600);
}

TEST(TrafficOfCollectives, GoesFromTheRootOrToIt) {
  EXPECT_EQ(of(GPEMU_CUDA_BROADCAST, 2).received, 0);
  EXPECT_EQ(of(GPEMU_CUDA_BROADCAST, 2).sent, 1200);
  EXPECT_EQ(of(GPEMU_CUDA_BROADCAST, 1).sent, 0) << "the end of the chain";
  EXPECT_EQ(of(GPEMU_CUDA_REDUCE, 2).sent, 0);
  EXPECT_EQ(of(GPEMU_CUDA_REDUCE, 2).received, 1200);
  EXPECT_EQ(of(GPEMU_CUDA_GATHER, 2).received, 3600);
  EXPECT_EQ(of(GPEMU_CUDA_SCATTER, 2).sent, 3600);
}

TEST(TrafficOfCollectives, WhatIsSentIsReceived) {
  for (int kind = GPEMU_CUDA_ALL_REDUCE; kind <= GPEMU_CUDA_SCATTER; ++kind) {
    LinkTraffic all;
    for (int rank = 0; rank < 4; ++rank) {
      const LinkTraffic one = of(static_cast<gpemu_cuda_collective>(kind), rank);
      all.sent += one.sent;
      all.received += one.received;
    }
    EXPECT_EQ(all.sent, all.received) << kind;
    EXPECT_GT(all.sent, 0) << kind;
  }
}

TEST(TrafficOfCollectives, OneRankMovesNothing) {
  const LinkTraffic alone = traffic_of(
      {.kind = GPEMU_CUDA_ALL_REDUCE, .type = GPEMU_CUDA_COMM_FP32, .count = 300}, {0, 1});
  EXPECT_EQ(alone.sent + alone.received, 0);
}

}  // namespace
}  // namespace gpemu::ranks
