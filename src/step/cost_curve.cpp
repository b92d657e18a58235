// SPDX-License-Identifier: Apache-2.0
#include "cost_curve.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>

namespace gpemu::step {
namespace {

// Source of all numbers here: GPEmu's measured rows (VLDB 2025, 36 models on 6 GPUs, commit
// 27e9534), cut off at several batch sizes and continued over the rows that were held out.

// Times: the chord alone treats a GPU that is not yet full as full, the line through the origin
// does the opposite; the middle of the two is best from batch 32 on. Cut off at 64, the mean error
// up to twice the batch is 4 % forward and 3 % backward (chord alone 5 and 4 %, line through the
// last eighth 10 and 9 %). The bar covers 89.5 % of the held-out times for cuts from 24 to 192,
// growing ratios up to 10 included.
constexpr double kTimeShareOfProportional = 0.5;
constexpr double kExtrapolatedTimeError = 0.06;
constexpr double kTimeErrorPerDoublingBeyond = 0.10;
// Below the first point the chord wins (mean 7 to 16 % for cuts from 2 to 64, a constant 13 to
// 123 %); the bar covers 91.6 %.
constexpr double kTimeErrorPerDoublingBelow = 0.20;

// A mean over 8 iterations whose coefficient of variation is 1.0 % (ResNet-50 forward, batch 128,
// V100): 1.645 * 1.0 % / sqrt(8). Source: GPEmu, plots/des/time/comp/cdf.
constexpr double kMeasuredTimeError = 0.006;

// Memory is affine in the batch. The bar covers 99 % of the held-out peaks beyond the cut and 91 %
// below it. The allocator's count is exact, so a measured one has no error.
constexpr double kExtrapolatedMemoryError = 0.015;
constexpr double kMemoryErrorPerDoublingBeyond = 0.005;
constexpr double kMemoryErrorPerDoublingBelow = 0.01;

/// Larger batches are not considered: this bounds the search and keeps batches ints.
constexpr double kLargestBatchConsidered = 1e6;

Result<void> check_points(const profile::Curve& curve) {
  const auto name = [&] {
    return fmt::format("{} of {} on {} at {}", quantity_name(curve.key.quantity), curve.key.model,
                       curve.key.gpu, curve.key.precision);
  };
  if (curve.points.size() < 2) {
    return fail(ErrorCode::kUnsupported,
                "{}: {} measured point(s); a cost needs at least two batch sizes", name(),
                curve.points.size());
  }
  int previous = 0;
  for (const profile::CurvePoint& point : curve.points) {
    if (point.batch <= previous || !(point.value > 0) || !std::isfinite(point.value)) {
      return fail(ErrorCode::kCorruptData,
                  "{}: batch {} with value {}: expected ascending batches and positive values",
                  name(), point.batch, point.value);
    }
    previous = point.batch;
  }
  return {};
}

double doublings(double ratio) {
  return std::log2(ratio);
}

}  // namespace

CurveTrend time_trend() {
  return {.share_of_proportional = kTimeShareOfProportional,
          .measured_error = kMeasuredTimeError,
          .extrapolated_error = kExtrapolatedTimeError,
          .error_per_doubling_beyond = kTimeErrorPerDoublingBeyond,
          .error_per_doubling_below = kTimeErrorPerDoublingBelow};
}

CurveTrend copy_trend() {
  // A copy depends on the bytes only, so its chord is the slope.
  CurveTrend trend = time_trend();
  trend.share_of_proportional = 0;
  return trend;
}

CurveTrend memory_trend() {
  return {.share_of_proportional = 0,
          .measured_error = 0,
          .extrapolated_error = kExtrapolatedMemoryError,
          .error_per_doubling_beyond = kMemoryErrorPerDoublingBeyond,
          .error_per_doubling_below = kMemoryErrorPerDoublingBelow};
}

Result<CostCurve> CostCurve::create(const profile::Curve& curve, const CurveTrend& trend) {
  GPEMU_TRY(check_points(curve));
  return CostCurve(curve, trend);
}

CostCurve::CostCurve(const profile::Curve& curve, const CurveTrend& trend)
    : points_(curve.points),
      emulated_(curve.emulated),
      trend_(trend),
      interpolation_error_(std::max(curve.p90_relative_error, trend.measured_error)) {
  const profile::CurvePoint first = points_.front();
  const profile::CurvePoint last = points_.back();
  // Chords over a doubling, because neighbouring points may be close together, and noise and
  // changes of the library's algorithm separate them.
  const double low = std::max<double>(first.batch, last.batch / 2.0);
  const double chord = std::max(0.0, (last.value - interpolate(low)) / (last.batch - low));
  slope_beyond_ = std::lerp(chord, last.value / last.batch, trend_.share_of_proportional);
  const double high = std::min<double>(last.batch, 2.0 * first.batch);
  slope_below_ = std::max(0.0, (interpolate(high) - first.value) / (high - first.batch));
}

CostCurve::Value CostCurve::at(int batch) const {
  Value value = value_at(batch);
  // Whether measured, between or beyond, it says nothing about a real GPU.
  if (emulated_) value.evidence = cost::Evidence::kEmulated;
  return value;
}

CostCurve::Value CostCurve::value_at(int batch) const {
  if (batch < points_.front().batch) return below_first(batch);
  if (batch > points_.back().batch) return beyond_last(batch);
  const auto next = std::ranges::lower_bound(points_, batch, {}, &profile::CurvePoint::batch);
  if (next->batch == batch) return {next->value, cost::Evidence::kMeasured, trend_.measured_error};
  return {interpolate(batch), cost::Evidence::kInterpolated, interpolation_error_};
}

double CostCurve::interpolate(double batch) const {
  const auto next = std::ranges::lower_bound(points_, batch, {}, &profile::CurvePoint::batch);
  if (next == points_.begin()) return next->value;
  const auto previous = std::prev(next);
  const double share = (batch - previous->batch) / (next->batch - previous->batch);
  return std::lerp(previous->value, next->value, share);
}

CostCurve::Value CostCurve::below_first(int batch) const {
  const profile::CurvePoint first = points_.front();
  // Less work takes no longer, and no less than its proportion of the time.
  const double line = first.value - slope_below_ * (first.batch - batch);
  const double value = std::max(line, first.value * batch / first.batch);
  const double error =
      std::max(trend_.extrapolated_error, interpolation_error_) +
      trend_.error_per_doubling_below * doublings(static_cast<double>(first.batch) / batch);
  return {value, cost::Evidence::kExtrapolated, error};
}

CostCurve::Value CostCurve::beyond_last(int batch) const {
  const profile::CurvePoint last = points_.back();
  const double value = last.value + slope_beyond_ * (batch - last.batch);
  const double error =
      std::max(trend_.extrapolated_error, interpolation_error_) +
      trend_.error_per_doubling_beyond * doublings(static_cast<double>(batch) / last.batch);
  return {value, cost::Evidence::kExtrapolated, error};
}

double CostCurve::largest_up_to(int batch) const {
  double largest = at(batch).value;
  for (const profile::CurvePoint& point : points_) {
    if (point.batch <= batch) largest = std::max(largest, point.value);
  }
  return largest;
}

int CostCurve::largest_batch_below(double limit) const {
  const profile::CurvePoint last = points_.back();
  double bound = last.batch;
  if (last.value <= limit && slope_beyond_ > 0) {
    bound += std::min((limit - last.value) / slope_beyond_ + 1, kLargestBatchConsidered);
  }
  const auto batches = std::views::iota(1, static_cast<int>(bound) + 1);
  const auto fits = [&](int batch) { return at(batch).value <= limit; };
  return static_cast<int>(std::ranges::partition_point(batches, fits) - batches.begin());
}

}  // namespace gpemu::step
