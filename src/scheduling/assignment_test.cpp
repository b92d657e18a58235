// SPDX-License-Identifier: Apache-2.0
#include "assignment.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "random_draws.hpp"

namespace gpemu::scheduling {
namespace {

using Costs = std::vector<std::vector<std::int64_t>>;

/// Returns the least sum by trying every free column for each row.
std::int64_t least_sum(const Costs& costs, std::size_t row, std::vector<bool>& used) {
  if (row == costs.size()) return 0;
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (std::size_t column = 0; column < used.size(); ++column) {
    if (used[column]) continue;
    used[column] = true;
    best = std::min(best, costs[row][column] + least_sum(costs, row + 1, used));
    used[column] = false;
  }
  return best;
}

TEST(AssignmentTest, IsTheCheapestOf10000SmallInstances) {
  RandomDraws draw(1);
  for (int instance = 0; instance < instances(10000); ++instance) {
    const std::size_t rows = 1 + draw(4);
    const std::size_t columns = rows + draw(3);
    Costs costs(rows, std::vector<std::int64_t>(columns));
    for (auto& row : costs) {
      for (std::int64_t& cost : row) cost = static_cast<std::int64_t>(draw(20));
    }
    const std::vector<std::size_t> chosen = cheapest_assignment(
        rows, columns, [&](std::size_t row, std::size_t column) { return costs[row][column]; });
    std::int64_t sum = 0;
    std::vector<bool> used(columns);
    for (std::size_t row = 0; row < rows; ++row) {
      ASSERT_FALSE(used[chosen[row]]);
      used[chosen[row]] = true;
      sum += costs[row][chosen[row]];
    }
    std::vector<bool> none(columns);
    ASSERT_EQ(sum, least_sum(costs, 0, none));
  }
}

}  // namespace
}  // namespace gpemu::scheduling
