// SPDX-License-Identifier: Apache-2.0
#include "cost_curve.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace gpemu::step {
namespace {

constexpr double kTolerance = 1e-12;

// Round numbers in place of the calibrated ones, to keep the rules apart from the calibration.
constexpr CurveTrend kTrend = {.share_of_proportional = 0.5,
                               .measured_error = 0.01,
                               .extrapolated_error = 0.06,
                               .error_per_doubling_beyond = 0.1,
                               .error_per_doubling_below = 0.2};

CostCurve make_curve(std::vector<profile::CurvePoint> points, const CurveTrend& trend = kTrend) {
  profile::Curve curve;
  curve.points = std::move(points);
  curve.p90_relative_error = 0.03;
  Result<CostCurve> created = CostCurve::create(curve, trend);
  EXPECT_TRUE(created) << created.error().message;
  return *std::move(created);
}

ErrorCode refusal_of(std::vector<profile::CurvePoint> points) {
  profile::Curve curve;
  curve.points = std::move(points);
  const Result<CostCurve> created = CostCurve::create(curve, kTrend);
  return created ? ErrorCode::kInternal : created.error().code;
}

TEST(CostCurve, ReturnsStoredPointsAsMeasured) {
  const CostCurve curve = make_curve({{4, 10}, {8, 14}, {16, 30}});
  for (const auto& [batch, value] : {std::pair{4, 10.0}, {8, 14.0}, {16, 30.0}}) {
    const CostCurve::Value at = curve.at(batch);
    EXPECT_EQ(at.value, value);
    EXPECT_EQ(at.evidence, cost::Evidence::kMeasured);
    EXPECT_EQ(at.relative_error, 0.01);
  }
}

TEST(CostCurve, InterpolatesBetweenNeighboursWithTheCurvesError) {
  const CostCurve curve = make_curve({{4, 10}, {8, 14}, {16, 30}});
  const CostCurve::Value at = curve.at(12);
  EXPECT_NEAR(at.value, 22, kTolerance);
  EXPECT_EQ(at.evidence, cost::Evidence::kInterpolated);
  EXPECT_EQ(at.relative_error, 0.03);
  EXPECT_NEAR(curve.at(5).value, 11, kTolerance);
}

TEST(CostCurve, ContinuesBetweenItsChordAndTheProportionalLine) {
  // Chord over the last doubling, 8 to 16: 2 a sample. Through the origin: 30 / 16 a sample.
  const CostCurve curve = make_curve({{4, 10}, {8, 14}, {16, 30}});
  const CostCurve::Value at = curve.at(32);
  EXPECT_NEAR(at.value, 30 + 16 * (2 + 30.0 / 16) / 2, kTolerance);
  EXPECT_EQ(at.evidence, cost::Evidence::kExtrapolated);
  EXPECT_NEAR(at.relative_error, 0.06 + 0.1, kTolerance);
  EXPECT_NEAR(curve.at(64).relative_error, 0.06 + 0.2, kTolerance);
}

TEST(CostCurve, TakesTheChordOverADoublingAndNotTheLastSegment) {
  CurveTrend chord_only = kTrend;
  chord_only.share_of_proportional = 0;
  const CostCurve curve = make_curve({{8, 8}, {15, 15}, {16, 100}}, chord_only);
  EXPECT_NEAR(curve.at(24).value, 100 + 92, kTolerance);
}

TEST(CostCurve, NeverFallsBeyondTheLastPoint) {
  CurveTrend chord_only = kTrend;
  chord_only.share_of_proportional = 0;
  const CostCurve curve = make_curve({{8, 20}, {16, 10}}, chord_only);
  EXPECT_EQ(curve.at(32).value, 10);
}

TEST(CostCurve, ContinuesBelowTheFirstPoint) {
  // Chord over the first doubling, 8 to 16: 1 a sample.
  const CostCurve curve = make_curve({{8, 20}, {16, 28}, {32, 100}});
  const CostCurve::Value at = curve.at(4);
  EXPECT_NEAR(at.value, 16, kTolerance);
  EXPECT_EQ(at.evidence, cost::Evidence::kExtrapolated);
  EXPECT_NEAR(at.relative_error, 0.06 + 0.2, kTolerance);
}

TEST(CostCurve, IsNeverBelowProportionForSmallBatches) {
  const CostCurve curve = make_curve({{8, 8}, {16, 24}});
  EXPECT_NEAR(curve.at(1).value, 1, kTolerance);
}

TEST(CostCurve, ErrorBarsNeverShrinkWithTheDistance) {
  const CostCurve curve = make_curve({{8, 20}, {16, 28}});
  for (int batch = 17; batch < 200; ++batch) {
    EXPECT_GT(curve.at(batch + 1).relative_error, curve.at(batch).relative_error);
  }
  for (int batch = 7; batch > 1; --batch) {
    EXPECT_GT(curve.at(batch - 1).relative_error, curve.at(batch).relative_error);
  }
}

TEST(CostCurve, FindsTheLargestBatchBelowALimit) {
  const CostCurve curve = make_curve({{1, 110}, {16, 260}, {32, 420}}, memory_trend());
  EXPECT_EQ(curve.largest_batch_below(109), 0);
  EXPECT_EQ(curve.largest_batch_below(110), 1);
  EXPECT_EQ(curve.largest_batch_below(264), 16);
  EXPECT_EQ(curve.largest_batch_below(420), 32);
  EXPECT_EQ(curve.largest_batch_below(500), 40);
  EXPECT_EQ(curve.largest_batch_below(509.9), 40);
  for (const double limit : {110.0, 333.3, 1234.5}) {
    const int batch = curve.largest_batch_below(limit);
    EXPECT_LE(curve.at(batch).value, limit);
    EXPECT_GT(curve.at(batch + 1).value, limit);
  }
}

TEST(CostCurve, StopsLookingForABatchWhereMemoryDoesNotGrow) {
  const CostCurve curve = make_curve({{1, 60}, {32, 60}}, memory_trend());
  EXPECT_EQ(curve.largest_batch_below(1e9), 32);
}

TEST(CostCurve, LargestUpToSeesBumps) {
  const CostCurve curve = make_curve({{1, 10}, {8, 50}, {16, 40}});
  EXPECT_EQ(curve.largest_up_to(4), curve.at(4).value);
  EXPECT_EQ(curve.largest_up_to(16), 50);
}

TEST(CostCurve, RefusesPointsThatMakeNoCurve) {
  EXPECT_EQ(refusal_of({}), ErrorCode::kUnsupported);
  EXPECT_EQ(refusal_of({{8, 1}}), ErrorCode::kUnsupported);
  EXPECT_EQ(refusal_of({{8, 1}, {8, 2}}), ErrorCode::kCorruptData);
  EXPECT_EQ(refusal_of({{8, 1}, {4, 2}}), ErrorCode::kCorruptData);
  EXPECT_EQ(refusal_of({{0, 1}, {4, 2}}), ErrorCode::kCorruptData);
  EXPECT_EQ(refusal_of({{1, 0}, {4, 2}}), ErrorCode::kCorruptData);
  EXPECT_EQ(refusal_of({{1, 1}, {4, -2}}), ErrorCode::kCorruptData);
  EXPECT_EQ(refusal_of({{1, 1}, {4, std::numeric_limits<double>::quiet_NaN()}}),
            ErrorCode::kCorruptData);
}

}  // namespace
}  // namespace gpemu::step
