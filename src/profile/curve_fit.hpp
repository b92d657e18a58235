// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "gpemu/profile/profile.hpp"

namespace gpemu::profile {

/// Returns the fewest of `rows` between which straight lines come within `tolerance` (relative) of
/// every row; of several such choices, the one with the smallest sum of relative errors. The first
/// and the last row are always among them.
///
/// Requires: rows in ascending order of distinct batches, values positive, tolerance not negative.
/// Complexity: n^2 in the number of rows times the length of a segment; noise ends segments early.
[[nodiscard]] std::vector<CurvePoint> fit_curve(std::span<const CurvePoint> rows, double tolerance);

/// Returns the value at `batch` on the straight line between its neighbours in `points`.
///
/// Requires: `batch` neither before the first point nor after the last.
[[nodiscard]] double interpolate(std::span<const CurvePoint> points, int batch);

/// How far straight lines between a curve's points are from what was measured, as
/// |interpolated / measured - 1|.
struct FitError {
  double mean = 0;
  double p90 = 0;
  double p95 = 0;
  double max = 0;
};

/// Returns the statistics of relative errors; zeros for none. A percentile is the smallest error
/// that is not exceeded by that share of them.
[[nodiscard]] FitError summarize_errors(std::vector<double> errors);

/// Returns the relative error of `points` at each of `rows`. Requires: as interpolate().
[[nodiscard]] std::vector<double> relative_errors(std::span<const CurvePoint> points,
                                                  std::span<const CurvePoint> rows);

}  // namespace gpemu::profile
