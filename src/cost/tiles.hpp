// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpemu::cost {

/// A product of matrices: `batch` times rows x columns, each a sum of `depth` terms.
struct Product {
  double rows, columns, depth, batch;
};

/// The same as std::floor and std::ceil for numbers that are not negative; those are function calls
/// on x86-64.
[[nodiscard]] inline double round_down(double value) {
  constexpr double kWhole = 1e15;  // Beyond it, numbers are whole, or not numbers.
  return value < kWhole ? static_cast<double>(static_cast<std::int64_t>(value)) : value;
}
[[nodiscard]] inline double round_up(double value) {
  const double whole = round_down(value);
  return whole < value ? whole + 1 : whole;
}

/// Returns a product's time in multiply-adds, with the best tiles; `split`: sums may be split.
[[nodiscard]] double tiled(const Product& product, double multiprocessors, bool split);

}  // namespace gpemu::cost
