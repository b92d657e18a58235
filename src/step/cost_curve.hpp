// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/cost/estimate.hpp"
#include "gpemu/profile/profile.hpp"

namespace gpemu::step {

/// How a quantity continues where it was not measured, and the errors that this was found to have.
struct CurveTrend {
  /// Beyond the last point the curve follows its chord over the last doubling of the batch size
  /// (0), the line through the origin (1), or a line between the two.
  double share_of_proportional = 0;
  /// Half-widths of 90 % intervals; see Estimate::relative_error.
  double measured_error = 0;
  double extrapolated_error = 0;         ///< at the first or last measured point.
  double error_per_doubling_beyond = 0;  ///< added for each doubling beyond the last point.
  double error_per_doubling_below = 0;   ///< added for each halving below the first point.
};

/// Of forward and of backward with optimizer.
[[nodiscard]] CurveTrend time_trend();
/// Of the input copy.
[[nodiscard]] CurveTrend copy_trend();
/// Of peak and persistent memory.
[[nodiscard]] CurveTrend memory_trend();

/// One measured quantity as a function of the batch size, continued where it was not measured.
///
/// Immutable: a pure function. Thread safety: const members may be called concurrently.
class CostCurve {
 public:
  struct Value {
    double value = 0;  ///< ms or MiB, as the curve.
    cost::Evidence evidence = cost::Evidence::kMeasured;
    double relative_error = 0;
  };

  /// Errors: kUnsupported for fewer than two points; kCorruptData for points that are not in
  /// ascending batch order, positive and finite.
  [[nodiscard]] static Result<CostCurve> create(const profile::Curve& curve,
                                                const CurveTrend& trend);

  /// Requires: batch >= 1. Complexity: logarithmic in the number of points, no allocation.
  [[nodiscard]] Value at(int batch) const;

  /// Returns the largest value of the batches from 1 to `batch`.
  [[nodiscard]] double largest_up_to(int batch) const;

  /// Returns the largest batch whose value is at most `limit`, assuming an ascending curve; 0 if
  /// there is none.
  [[nodiscard]] int largest_batch_below(double limit) const;

  [[nodiscard]] int last_batch() const { return points_.back().batch; }
  [[nodiscard]] bool emulated() const { return emulated_; }

 private:
  CostCurve(const profile::Curve& curve, const CurveTrend& trend);

  [[nodiscard]] Value value_at(int batch) const;

  /// Requires: `batch` lies within the measured range.
  [[nodiscard]] double interpolate(double batch) const;
  [[nodiscard]] Value below_first(int batch) const;
  [[nodiscard]] Value beyond_last(int batch) const;

  std::vector<profile::CurvePoint> points_;
  bool emulated_;
  CurveTrend trend_;
  double interpolation_error_;
  double slope_below_ = 0;   ///< per sample, below the first point.
  double slope_beyond_ = 0;  ///< per sample, beyond the last point.
};

}  // namespace gpemu::step
