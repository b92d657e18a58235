// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::experiment {

/// A number, or one for each row of an experiment.
using Value = std::vector<double>;

/// Returns the value of a name such as "stall" or "cached.epoch_s".
///
/// Errors: kInvalidArgument if there is no such name.
using Names = std::function<Result<Value>(std::string_view name)>;

/// Computes an expression: numbers, names, + - * /, brackets, and the functions
///
/// * min(v), max(v), mean(v): over rows;
/// * least_step(v), largest_step(v): of the ratios v[i + 1] / v[i];
/// * correlation(v, w): of the rows' ranks (Spearman's), equal values at their mean rank; rows of
///   which a value is unknown do not count.
///
/// A number and rows make rows.
///
/// Errors: kInvalidArgument with the place in the text; those of `names`.
[[nodiscard]] Result<Value> compute(std::string_view text, const Names& names);

/// Whether a comparison holds, and what its sides were.
struct Comparison {
  bool holds = false;
  std::string sides;  ///< e.g. "0.83 >= 0.8", or "1.2 to 1.5 >= 1" for rows.
};

/// Computes a comparison such as "15 <= stall.alexnet <= 45". Of rows, it holds if it holds for
/// each of them.
///
/// Errors: as compute().
[[nodiscard]] Result<Comparison> compare(std::string_view text, const Names& names);

}  // namespace gpemu::experiment
