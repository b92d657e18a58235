// SPDX-License-Identifier: Apache-2.0
#include "curve_fit.hpp"

#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

namespace gpemu::profile {
namespace {

std::vector<int> batches(const std::vector<CurvePoint>& points) {
  std::vector<int> result;
  result.reserve(points.size());
  for (const CurvePoint& point : points) result.push_back(point.batch);
  return result;
}

double sum(const std::vector<double>& values) {
  double result = 0;
  for (const double value : values) result += value;
  return result;
}

/// Tries every choice of rows that has the first and the last.
std::vector<CurvePoint> fit_by_trying(const std::vector<CurvePoint>& rows, double tolerance) {
  std::vector<CurvePoint> best = rows;
  double best_error = 0;
  const auto inner = static_cast<unsigned>(rows.size() - 2);
  for (std::uint32_t mask = 0; mask < 1U << inner; ++mask) {
    std::vector<CurvePoint> points = {rows.front()};
    for (unsigned bit = 0; bit < inner; ++bit) {
      if ((mask >> bit & 1U) != 0) points.push_back(rows[bit + 1]);
    }
    points.push_back(rows.back());
    const std::vector<double> errors = relative_errors(points, rows);
    const double error = sum(errors);
    if (summarize_errors(errors).max > tolerance || points.size() > best.size()) continue;
    if (points.size() < best.size() || error < best_error) {
      best = points;
      best_error = error;
    }
  }
  return best;
}

/// Rows with steps and noise, the same for the same seed.
std::vector<CurvePoint> noisy_rows(std::uint32_t seed, int count) {
  std::vector<CurvePoint> rows;
  int batch = 0;
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    batch += 1 + static_cast<int>(seed >> 30);
    const double noise = static_cast<double>(seed >> 8 & 0xffffU) / 65536.0;
    rows.push_back({batch, 10 + batch + (batch > 12 ? 8 : 0) + 2 * noise});
  }
  return rows;
}

TEST(CurveFit, KeepsTheEndsOfAStraightLine) {
  std::vector<CurvePoint> rows;
  for (int batch = 1; batch <= 256; ++batch) rows.push_back({batch, 0.1 + 0.3 * batch});
  EXPECT_EQ(batches(fit_curve(rows, 0)), (std::vector<int>{1, 256}));
}

TEST(CurveFit, FindsTheKneeOfAHinge) {
  std::vector<CurvePoint> rows;
  for (int batch = 1; batch <= 64; ++batch) rows.push_back({batch, std::max(20.0, 0.5 * batch)});
  EXPECT_EQ(batches(fit_curve(rows, 1e-9)), (std::vector<int>{1, 40, 64}));
}

TEST(CurveFit, KeepsBothSidesOfAStep) {
  std::vector<CurvePoint> rows;
  for (int batch = 1; batch <= 64; ++batch) rows.push_back({batch, batch < 33 ? 10.0 : 30.0});
  EXPECT_EQ(batches(fit_curve(rows, 0.01)), (std::vector<int>{1, 32, 33, 64}));
}

TEST(CurveFit, KeepsEveryRowOfAZigzag) {
  std::vector<CurvePoint> rows;
  for (int batch = 1; batch <= 9; ++batch) rows.push_back({batch, batch % 2 == 0 ? 10.0 : 20.0});
  EXPECT_EQ(fit_curve(rows, 0.01).size(), rows.size());
}

TEST(CurveFit, TakesWhatLittleThereIs) {
  EXPECT_TRUE(fit_curve({}, 0.01).empty());
  const std::vector<CurvePoint> one = {{5, 1.0}};
  EXPECT_EQ(batches(fit_curve(one, 0.01)), (std::vector<int>{5}));
  const std::vector<CurvePoint> two = {{5, 1.0}, {7, 9.0}};
  EXPECT_EQ(batches(fit_curve(two, 0.01)), (std::vector<int>{5, 7}));
}

TEST(CurveFit, IsAsGoodAsTryingEveryChoice) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    const std::vector<CurvePoint> rows = noisy_rows(seed, 3 + static_cast<int>(seed % 9));
    for (const double tolerance : {0.0, 0.01, 0.03, 0.1, 0.5}) {
      const std::vector<CurvePoint> expected = fit_by_trying(rows, tolerance);
      const std::vector<CurvePoint> actual = fit_curve(rows, tolerance);
      ASSERT_EQ(actual.size(), expected.size()) << "seed " << seed << ", tolerance " << tolerance;
      EXPECT_NEAR(sum(relative_errors(actual, rows)), sum(relative_errors(expected, rows)), 1e-9)
          << "seed " << seed << ", tolerance " << tolerance;
    }
  }
}

TEST(CurveFit, StaysWithinTheToleranceAtEveryRow) {
  const std::vector<CurvePoint> rows = noisy_rows(7, 200);
  for (const double tolerance : {0.001, 0.01, 0.02}) {
    const FitError error = summarize_errors(relative_errors(fit_curve(rows, tolerance), rows));
    EXPECT_LE(error.max, tolerance + 1e-9);
  }
}

TEST(Interpolate, IsExactAtPointsAndLinearBetween) {
  const std::vector<CurvePoint> points = {{1, 10}, {3, 20}, {8, 45}};
  EXPECT_EQ(interpolate(points, 1), 10);
  EXPECT_EQ(interpolate(points, 2), 15);
  EXPECT_EQ(interpolate(points, 3), 20);
  EXPECT_EQ(interpolate(points, 4), 25);
  EXPECT_EQ(interpolate(points, 8), 45);
}

TEST(SummarizeErrors, CountsPercentilesByRank) {
  std::vector<double> errors;
  for (int i = 100; i >= 1; --i) errors.push_back(i);
  const FitError error = summarize_errors(errors);
  EXPECT_EQ(error.mean, 50.5);
  EXPECT_EQ(error.p90, 90);
  EXPECT_EQ(error.p95, 95);
  EXPECT_EQ(error.max, 100);
  EXPECT_EQ(summarize_errors({}).max, 0);
  EXPECT_EQ(summarize_errors({0.5}).p95, 0.5);
}

}  // namespace
}  // namespace gpemu::profile
