// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/file_sizes.hpp"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

namespace gpemu::pipeline {
namespace {

constexpr SizePercentile kPercentiles[] = {{0, 1000}, {50, 3000}, {100, 7000}};

TEST(FileSizes, AreDistributedAsThePercentilesSay) {
  std::vector<std::uint32_t> sizes = file_sizes(kPercentiles, 1000, 0, 1);
  EXPECT_FALSE(std::ranges::is_sorted(sizes));
  std::ranges::sort(sizes);
  EXPECT_EQ(sizes.front(), 1002U);
  EXPECT_EQ(sizes[499], 2998U);
  EXPECT_EQ(sizes[749], 4996U);
  EXPECT_EQ(sizes.back(), 6996U);
}

TEST(FileSizes, AreScaledToATotal) {
  const std::vector<std::uint32_t> sizes = file_sizes(kPercentiles, 1000, 7'000'000, 1);
  EXPECT_NEAR(std::accumulate(sizes.begin(), sizes.end(), 0.0), 7e6, 500);
}

TEST(FileSizes, DependOnTheSeedOnlyInTheirOrder) {
  std::vector<std::uint32_t> first = file_sizes(kPercentiles, 100, 0, 1);
  std::vector<std::uint32_t> second = file_sizes(kPercentiles, 100, 0, 2);
  EXPECT_EQ(first, file_sizes(kPercentiles, 100, 0, 1));
  EXPECT_NE(first, second);
  std::ranges::sort(first);
  std::ranges::sort(second);
  EXPECT_EQ(first, second);
}

TEST(GroupedSizes, HoldAllBytes) {
  const std::vector<std::uint32_t> sizes = file_sizes(kPercentiles, 1001, 0, 1);
  const std::vector<std::uint32_t> groups = grouped_sizes(sizes, 8, 1);
  EXPECT_EQ(groups.size(), 126U);
  EXPECT_EQ(std::accumulate(groups.begin(), groups.end(), std::uint64_t{0}),
            std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
  EXPECT_EQ(grouped_sizes(sizes, 1001, 1).size(), 1U);
}

}  // namespace
}  // namespace gpemu::pipeline
