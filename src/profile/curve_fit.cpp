// SPDX-License-Identifier: Apache-2.0
#include "curve_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "gpemu/base/error.hpp"

namespace gpemu::profile {
namespace {

/// Rounding of the line's evaluation must not make a row that lies exactly on it infeasible.
constexpr double kRounding = 1e-12;

double line_value(const CurvePoint& from, const CurvePoint& to, int batch) {
  const double share = static_cast<double>(batch - from.batch) / (to.batch - from.batch);
  return from.value + share * (to.value - from.value);
}

double relative_error(double value, double measured) {
  return std::abs(value / measured - 1);
}

/// The best way to a row: how many segments, the sum of errors, and the row before.
struct Path {
  std::size_t segments = std::numeric_limits<std::size_t>::max();
  double error = std::numeric_limits<double>::infinity();
  std::size_t previous = 0;
};

}  // namespace

std::vector<CurvePoint> fit_curve(std::span<const CurvePoint> rows, double tolerance) {
  if (rows.empty()) return {};
  // A shortest path: rows are nodes, and two rows are joined when every row between them is within
  // the tolerance of the straight line from one to the other.
  std::vector<Path> paths(rows.size());
  paths[0] = {.segments = 0, .error = 0, .previous = 0};
  for (std::size_t from = 0; from + 1 < rows.size(); ++from) {
    const CurvePoint& start = rows[from];
    // The slopes that pass all rows between `from` and `to`: they only ever get fewer.
    double lowest = -std::numeric_limits<double>::infinity();
    double highest = std::numeric_limits<double>::infinity();
    for (std::size_t to = from + 1; to < rows.size() && lowest <= highest; ++to) {
      const double distance = rows[to].batch - start.batch;
      const double slope = (rows[to].value - start.value) / distance;
      Path path = {.segments = paths[from].segments + 1, .error = 0, .previous = from};
      if (slope >= lowest && slope <= highest && path.segments <= paths[to].segments) {
        path.error = paths[from].error;
        for (std::size_t between = from + 1; between < to; ++between) {
          path.error +=
              relative_error(line_value(start, rows[to], rows[between].batch), rows[between].value);
        }
        if (path.segments < paths[to].segments || path.error < paths[to].error) paths[to] = path;
      }
      const double margin = rows[to].value * (tolerance + kRounding);
      lowest = std::max(lowest, (rows[to].value - margin - start.value) / distance);
      highest = std::min(highest, (rows[to].value + margin - start.value) / distance);
    }
  }
  std::vector<CurvePoint> points;
  for (std::size_t row = rows.size() - 1; row != 0; row = paths[row].previous) {
    points.push_back(rows[row]);
  }
  points.push_back(rows[0]);
  std::reverse(points.begin(), points.end());
  return points;
}

double interpolate(std::span<const CurvePoint> points, int batch) {
  const auto right = std::ranges::lower_bound(points, batch, {}, &CurvePoint::batch);
  GPEMU_CHECK(right != points.end(), "the batch is beyond the last point");
  if (right->batch == batch) return right->value;
  GPEMU_CHECK(right != points.begin(), "the batch is before the first point");
  return line_value(*(right - 1), *right, batch);
}

FitError summarize_errors(std::vector<double> errors) {
  if (errors.empty()) return {};
  std::ranges::sort(errors);
  const auto count = static_cast<double>(errors.size());
  const auto percentile = [&](double share) {
    return errors[static_cast<std::size_t>(std::ceil(share * count)) - 1];
  };
  return {.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / count,
          .p90 = percentile(0.90),
          .p95 = percentile(0.95),
          .max = errors.back()};
}

std::vector<double> relative_errors(std::span<const CurvePoint> points,
                                    std::span<const CurvePoint> rows) {
  std::vector<double> errors;
  errors.reserve(rows.size());
  for (const CurvePoint& row : rows) {
    errors.push_back(relative_error(interpolate(points, row.batch), row.value));
  }
  return errors;
}

}  // namespace gpemu::profile
