// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/interleaving.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace gpemu::scheduling {
namespace {

TEST(InterleavingTest, OneJobReadsWhileTheOtherComputes) {
  // Each slot takes 2 s; the factor is that of two jobs.
  const std::vector<Stages> jobs{{2, 2, 0}, {2, 1, 1}};
  EXPECT_DOUBLE_EQ(interleaved_iteration_s(jobs), 4 * 1.33 / 1.015);
}

TEST(InterleavingTest, JobsThatComputeAllTheTimeRunOneAfterTheOther) {
  const std::vector<Stages> jobs{{0, 3, 0}, {0, 3, 0}};
  EXPECT_DOUBLE_EQ(interleaved_iteration_s(jobs), 6 * 1.33 / 1.015);
}

TEST(InterleavingTest, TheOrderInWhichTheyAreNamedDoesNotMatter) {
  const std::vector<Stages> jobs{{1, 2, 0}, {0, 3, 1}, {4, 1, 1}};
  const std::vector<Stages> others{{4, 1, 1}, {1, 2, 0}, {0, 3, 1}};
  EXPECT_EQ(interleaved_iteration_s(jobs), interleaved_iteration_s(others));
}

}  // namespace
}  // namespace gpemu::scheduling
