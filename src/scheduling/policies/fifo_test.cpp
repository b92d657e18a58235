// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "run_jobs.hpp"

namespace gpemu::scheduling {
namespace {

TEST(FifoTest, NobodyOvertakesAJobThatDoesNotFit) {
  // The second waits for both GPUs until 5, and holds up the others until 8.
  EXPECT_EQ(
      ends_by("fifo", 2, {job_of(0, 1, 5), job_of(1, 2, 3), job_of(2, 1, 1), job_of(3, 1, 2)}),
      (std::vector<double>{5, 8, 9, 10}));
}

}  // namespace
}  // namespace gpemu::scheduling
