// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace gpemu::scheduling {

/// Gives each row a column of its own such that the sum of the costs is as small as possible (by
/// LEMON's network simplex). Returns each row's column.
///
/// Requires: at least as many columns as rows; costs from 0 to 1e15.
[[nodiscard]] std::vector<std::size_t> cheapest_assignment(
    std::size_t rows, std::size_t columns,
    const std::function<std::int64_t(std::size_t row, std::size_t column)>& cost);

}  // namespace gpemu::scheduling
