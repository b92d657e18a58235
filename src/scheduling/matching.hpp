// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace gpemu::scheduling {

/// Divides `count` things into pairs such that the sum of the pairs' weights is as large as
/// possible (Edmonds' algorithm, by LEMON). Returns each thing's partner; nothing for those without
/// one.
///
/// `weight` returns the weight of two things, the first less than the second; if it is not
/// positive, they are no pair. Of sums that are equal to 1e-6, the one that pairs the first things
/// with each other is preferred. Requires: weights of 1 or less, and fewer than 1,000 things.
[[nodiscard]] std::vector<std::optional<std::size_t>> heaviest_pairs(
    std::size_t count, const std::function<double(std::size_t, std::size_t)>& weight);

}  // namespace gpemu::scheduling
