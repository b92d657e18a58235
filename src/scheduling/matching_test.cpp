// SPDX-License-Identifier: Apache-2.0
#include "matching.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "random_draws.hpp"

namespace gpemu::scheduling {
namespace {

/// Returns the largest sum by trying all pairs of the first thing that is left.
double best_sum(const std::vector<std::vector<double>>& weights, std::vector<bool>& used) {
  const auto first = static_cast<std::size_t>(std::ranges::find(used, false) - used.begin());
  if (first == used.size()) return 0;
  used[first] = true;
  double best = best_sum(weights, used);
  for (std::size_t other = first + 1; other < used.size(); ++other) {
    if (used[other]) continue;
    used[other] = true;
    best = std::max(best, weights[first][other] + best_sum(weights, used));
    used[other] = false;
  }
  used[first] = false;
  return best;
}

/// Some things are of the same kind.
TEST(MatchingTest, FindsTheHeaviestPairsOf10000SmallInstances) {
  RandomDraws draw(1);
  HeaviestPairs pairs;
  for (int instance = 0; instance < instances(10000); ++instance) {
    const std::size_t count = 2 + draw(6);
    std::vector<std::size_t> kinds;
    std::size_t of_kinds = 0;
    for (std::size_t i = 0; i < count; ++i) {
      kinds.push_back(draw(of_kinds + 1));
      of_kinds = std::max(of_kinds, kinds.back() + 1);
    }
    std::vector<double> of_pairs(of_kinds * of_kinds);
    for (std::size_t a = 0; a < of_kinds; ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        const double weight = draw(3) == 0 ? 0 : static_cast<double>(draw(1000)) / 1000;
        of_pairs[a * of_kinds + b] = of_pairs[b * of_kinds + a] = weight;
      }
    }
    std::vector<std::vector<double>> weights(count, std::vector<double>(count));
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = 0; b < count; ++b) {
        weights[a][b] = of_pairs[kinds[a] * of_kinds + kinds[b]];
      }
    }
    const auto partners = pairs.find(kinds, of_pairs);
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!partners[i]) continue;
      ASSERT_EQ(partners[*partners[i]], i);
      if (i < *partners[i]) sum += weights[i][*partners[i]];
    }
    std::vector<bool> used(count);
    ASSERT_NEAR(sum, best_sum(weights, used), 1e-6);
  }
}

}  // namespace
}  // namespace gpemu::scheduling
