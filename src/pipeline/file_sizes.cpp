// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/file_sizes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpemu/base/error.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::pipeline {
namespace {

/// Distinguishes the order of sizes from that of samples, which has the same seed.
constexpr std::uint64_t kSizeStream = 0x73697a65;  // "size"

double size_at(std::span<const SizePercentile> percentiles, double percent) {
  const auto above = std::ranges::lower_bound(percentiles, percent, {}, &SizePercentile::percent);
  if (above == percentiles.begin()) return above->bytes;
  const SizePercentile& low = *(above - 1);
  return low.bytes +
         (above->bytes - low.bytes) * (percent - low.percent) / (above->percent - low.percent);
}

}  // namespace

std::vector<std::uint32_t> file_sizes(std::span<const SizePercentile> percentiles,
                                      std::size_t files, Bytes total, std::uint64_t seed) {
  const auto wanted = [&](std::size_t file) {
    return size_at(percentiles,
                   100 * (static_cast<double>(file) + 0.5) / static_cast<double>(files));
  };
  double sum = 0;
  for (std::size_t i = 0; i < files; ++i) sum += wanted(i);
  const double scale = total == 0 || sum == 0 ? 1 : static_cast<double>(total) / sum;
  constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> sizes(files);
  for (std::size_t i = 0; i < files; ++i) {
    sizes[i] = static_cast<std::uint32_t>(std::clamp(std::round(wanted(i) * scale), 1.0, kMost));
  }
  sim::Rng(seed, kSizeStream).shuffle(std::span<std::uint32_t>(sizes));
  return sizes;
}

std::vector<std::uint32_t> grouped_sizes(std::span<const std::uint32_t> sizes, std::size_t group,
                                         std::uint64_t seed) {
  GPEMU_CHECK(group > 0, "a group has a file");
  const std::vector<std::uint32_t> order = data::shuffled_order(sizes.size(), seed, kSizeStream);
  std::vector<std::uint32_t> groups((sizes.size() + group - 1) / group, 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint64_t bytes = std::uint64_t{groups[i / group]} + sizes[order[i]];
    groups[i / group] = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(bytes, std::numeric_limits<std::uint32_t>::max()));
  }
  return groups;
}

}  // namespace gpemu::pipeline
