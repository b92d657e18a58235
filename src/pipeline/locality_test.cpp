// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/locality.hpp"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

namespace gpemu::pipeline {
namespace {

struct Division {
  std::size_t least = 1000, most = 0;  ///< files of a node.
  std::size_t local = 0;               ///< files on the node that caches them.
};

Division division_of(const std::vector<std::vector<FileId>>& parts,
                     const std::vector<Owner>& owners) {
  Division division;
  for (std::size_t node = 0; node < parts.size(); ++node) {
    division.least = std::min(division.least, parts[node].size());
    division.most = std::max(division.most, parts[node].size());
    for (const FileId file : parts[node])
      division.local += owners[file] == static_cast<Owner>(node);
  }
  return division;
}

/// Returns the most local files of all divisions into equal shares, by trying all of them.
std::size_t most_local(const std::vector<FileId>& batch, const std::vector<Owner>& owners,
                       int nodes) {
  std::size_t best = 0;
  std::vector<int> node_of(batch.size(), 0);
  while (true) {
    std::vector<std::vector<FileId>> parts(static_cast<std::size_t>(nodes));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      parts[static_cast<std::size_t>(node_of[i])].push_back(batch[i]);
    }
    const Division division = division_of(parts, owners);
    if (division.most - division.least <= 1) best = std::max(best, division.local);
    std::size_t i = 0;
    while (i < node_of.size() && ++node_of[i] == nodes) node_of[i++] = 0;
    if (i == node_of.size()) return best;
  }
}

TEST(AssignByLocality, ReadsAsFewFilesFromElsewhereAsAnyEqualDivision) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    sim::Rng random(seed);
    const int nodes = 2 + static_cast<int>(random.below(2));
    std::vector<FileId> batch(3 + random.below(6));
    std::iota(batch.begin(), batch.end(), 0U);
    random.shuffle(std::span<FileId>(batch));
    std::vector<Owner> owners(batch.size());
    for (Owner& owner : owners) {
      owner =
          static_cast<Owner>(static_cast<int>(random.below(static_cast<unsigned>(nodes) + 1)) - 1);
    }
    const auto parts = assign_by_locality(batch, owners, nodes);
    const Division division = division_of(parts, owners);
    EXPECT_LE(division.most - division.least, 1U) << seed;
    EXPECT_EQ(division.local, most_local(batch, owners, nodes)) << seed;
    // The global batch is the same.
    std::vector<FileId> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    std::ranges::sort(all);
    std::ranges::sort(batch);
    EXPECT_EQ(all, batch) << seed;
  }
}

TEST(AssignByLocality, KeepsTheOrderOfTheBatch) {
  const std::vector<FileId> batch = {4, 0, 3, 1};
  const std::vector<Owner> owners = {1, 0, kNobody, 0, 1};
  const auto parts = assign_by_locality(batch, owners, 2);
  EXPECT_EQ(parts[0], (std::vector<FileId>{3, 1}));
  EXPECT_EQ(parts[1], (std::vector<FileId>{4, 0}));
}

TEST(DivideAmongNodes, TakesTurnsWithoutOwners) {
  const std::vector<FileId> files = {9, 8, 7, 6, 5};
  const auto parts = divide_among_nodes(files, {}, 2, 2);
  EXPECT_EQ(parts[0], (std::vector<FileId>{9, 7, 5}));
  EXPECT_EQ(parts[1], (std::vector<FileId>{8, 6}));
}

TEST(DivideAmongNodes, KeepsEachGlobalBatchTogether) {
  const std::vector<FileId> files = {0, 1, 2, 3, 4, 5, 6};
  const std::vector<Owner> owners = {1, 1, 1, 0, 0, kNobody, 1};
  const auto parts = divide_among_nodes(files, owners, 2, 2);
  // The first four: node 1 gets two of its three, and node 0 its one and what is left.
  EXPECT_EQ(parts[0], (std::vector<FileId>{2, 3, 4, 5}));
  EXPECT_EQ(parts[1], (std::vector<FileId>{0, 1, 6}));
}

}  // namespace
}  // namespace gpemu::pipeline
