// SPDX-License-Identifier: Apache-2.0
#include "cli/in_parallel.hpp"

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::tools {
namespace {

TEST(InParallelTest, DoesEachPartOnce) {
  std::vector<int> parts(1000);
  std::size_t last = 0;
  in_parallel(
      parts.size(), 4, [&](std::size_t i) { parts[i] += static_cast<int>(i); },
      [&](std::size_t done) {
        EXPECT_GT(done, last);
        last = done;
      });
  EXPECT_EQ(last, parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(parts[i], static_cast<int>(i));
}

TEST(InParallelTest, WorksWithoutThreads) {
  std::vector<std::size_t> order;
  in_parallel(3, 0, [&](std::size_t i) { order.push_back(i); }, [](std::size_t) {});
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2}));
}

TEST(InParallelTest, ReturnsIfThereIsNothingToDo) {
  in_parallel(0, 2, [](std::size_t) { FAIL(); }, [](std::size_t) { FAIL(); });
}

}  // namespace
}  // namespace gpemu::tools
