// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpemu/base/units.hpp"

namespace gpemu::pipeline {

/// A share of all files, in per cent, and the size up to which they have.
struct SizePercentile {
  double percent = 0;
  double bytes = 0;
};

/// Returns the sizes of `files` files that are distributed as the percentiles say, with straight
/// lines between them, scaled so that they have `total` bytes together (0: not scaled), in an order
/// that depends on `seed`.
///
/// Requires: percentiles that ascend from 0 to 100, in both values.
[[nodiscard]] std::vector<std::uint32_t> file_sizes(std::span<const SizePercentile> percentiles,
                                                    std::size_t files, Bytes total,
                                                    std::uint64_t seed);

/// Returns the sizes of files of which each holds `group` of the given ones, taken in a random
/// order, as GPEmu's grouping writes them. The last group may be smaller.
[[nodiscard]] std::vector<std::uint32_t> grouped_sizes(std::span<const std::uint32_t> sizes,
                                                       std::size_t group, std::uint64_t seed);

}  // namespace gpemu::pipeline
