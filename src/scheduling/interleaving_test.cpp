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

TEST(InterleavingTest, AJobBesideAnotherTakesWholeIterationsOfTheOther) {
  // It reads in one iteration of the other, and computes in the next.
  EXPECT_EQ(
      iteration_beside_s({.stages = {3, 1, 0}, .time_s = 4}, {.stages = {1, 3, 0}, .time_s = 4}),
      8);
  // It reads for 2 s of the first gap of 4 s, computes for 1 s of it, and goes on in the next.
  EXPECT_EQ(
      iteration_beside_s({.stages = {2, 2, 1}, .time_s = 5}, {.stages = {1, 3, 1}, .time_s = 5}),
      10);
  EXPECT_EQ(
      iteration_beside_s({.stages = {1, 1, 1}, .time_s = 9}, {.stages = {4, 4, 4}, .time_s = 2}),
      9);
  EXPECT_EQ(iteration_beside_s({.stages = {}, .time_s = 4}, {.stages = {}, .time_s = 1}), 8);
}

}  // namespace
}  // namespace gpemu::scheduling
