// SPDX-License-Identifier: Apache-2.0
#include "collectives/operation.hpp"

#include <gtest/gtest.h>

namespace gpemu::collectives {
namespace {

using Values = std::vector<double>;

const NumberType& kFloat = *find_number_type("float");

Values expected(int rank, Operation operation, Reduction reduction, std::size_t bytes,
                const NumberType& type = kFloat) {
  return expected_at(rank, 4, 1, operation, reduction, type, counts_of(operation, bytes, type, 4));
}

// Ranks 0 to 3 send 1 2 1 2, 2 1 2 1, 1 2 1 2, 2 1 2 1.
TEST(Expected, AreTheRanksNumbersReduced) {
  EXPECT_EQ(sent_by(1, 4), (Values{2, 1, 2, 1}));
  EXPECT_EQ(expected(2, Operation::kAllReduce, Reduction::kSum, 16), (Values{6, 6, 6, 6}));
  EXPECT_EQ(expected(2, Operation::kAllReduce, Reduction::kProduct, 8), (Values{4, 4}));
  EXPECT_EQ(expected(2, Operation::kAllReduce, Reduction::kMax, 8), (Values{2, 2}));
  EXPECT_EQ(expected(2, Operation::kAllReduce, Reduction::kMin, 8), (Values{1, 1}));
  EXPECT_EQ(expected(2, Operation::kAllReduce, Reduction::kAverage, 8), (Values{1.5, 1.5}));
  EXPECT_EQ(expected(2, Operation::kAllReduce, Reduction::kAverage, 8, *find_number_type("int32")),
            (Values{1, 1}));
  EXPECT_EQ(expected(1, Operation::kReduce, Reduction::kSum, 8), (Values{6, 6}));
  EXPECT_EQ(expected(0, Operation::kReduce, Reduction::kSum, 8), Values{}) << "not the root";
  EXPECT_EQ(expected(3, Operation::kReduceScatter, Reduction::kSum, 32), (Values{6, 6}));
}

TEST(Expected, AreTheRanksNumbersMoved) {
  EXPECT_EQ(expected(0, Operation::kBroadcast, Reduction::kSum, 16), sent_by(1, 4));
  EXPECT_EQ(expected(3, Operation::kAllGather, Reduction::kSum, 16), (Values{1, 2, 1, 2}));
  // Rank 1 gets element 1 of each.
  EXPECT_EQ(expected(1, Operation::kAllToAll, Reduction::kSum, 16), (Values{2, 1, 2, 1}));
  EXPECT_EQ(expected(0, Operation::kSendReceive, Reduction::kSum, 16), sent_by(3, 4));
}

TEST(Counts, DivideTheSize) {
  const Counts gathered = counts_of(Operation::kAllGather, 64, kFloat, 4);
  EXPECT_EQ(gathered.sent, 4U);
  EXPECT_EQ(gathered.received, 16U);
  EXPECT_EQ(counts_of(Operation::kReduceScatter, 64, kFloat, 4).received, 4U);
  EXPECT_EQ(counts_of(Operation::kAllReduce, 64, kFloat, 4).given, 16U);
  EXPECT_EQ(counts_of(Operation::kAllToAll, 68, kFloat, 4).sent, 16U) << "in whole parts";
}

TEST(CountWrong, AllowsForRoundingOnly) {
  const NumberType& half = *find_number_type("half");
  EXPECT_EQ(count_wrong({1, 2}, {1, 2}, kFloat, 4), 0U);
  EXPECT_EQ(count_wrong({1, 2.001}, {1, 2}, kFloat, 4), 1U);
  EXPECT_EQ(count_wrong({1, 2.001}, {1, 2}, half, 4), 0U);
  EXPECT_EQ(count_wrong({3}, {2}, *find_number_type("int8"), 4), 1U);
  EXPECT_EQ(count_wrong({0.0 / 0.0}, {2}, kFloat, 4), 1U) << "no number";
  EXPECT_EQ(count_wrong({}, {2, 3}, kFloat, 4), 2U) << "nothing came";
}

}  // namespace
}  // namespace gpemu::collectives
