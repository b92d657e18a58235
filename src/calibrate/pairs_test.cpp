// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/pairs.hpp"

#include <array>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "gpemu/calibrate/coverage.hpp"

namespace gpemu::calibrate {
namespace {

std::vector<MeasuredPair> measured_pairs() {
  return profile::read_pairs(GPEMU_PAIRS_FILE).value();
}

PairedJob job(const std::string& model, int batch) {
  return {.model = model, .batch = batch, .precision = "fp32"};
}

MeasuredPair pair_of(const PairedJob& one, const PairedJob& other, double speed, double others) {
  return {.gpu = "G", .jobs = {one, other}, .speeds = {speed, others}};
}

/// Speeds that are exactly products of factors of two jobs, without those of `left_out`.
std::vector<MeasuredPair> made_up(const std::string& left_out = "") {
  const std::map<std::string, double> own = {{"a", 0.9}, {"b", 0.7}, {"c", 0.8}, {"d", 0.6}};
  const std::map<std::string, double> other = {{"a", 0.8}, {"b", 0.9}, {"c", 0.7}, {"d", 1}};
  std::vector<MeasuredPair> pairs;
  for (const auto& [one, speed] : own) {
    for (const auto& [two, speed_of_two] : own) {
      if (one > two || one + two == left_out) continue;
      // Many batches, so that nothing is drawn towards 0 for want of pairs.
      for (int batch = 1; batch <= 40; ++batch) {
        pairs.push_back(
            pair_of(job(one, 1), job(two, 1), speed * other.at(two), speed_of_two * other.at(one)));
      }
    }
  }
  return pairs;
}

TEST(Pairs, FactorsPredictAPairThatWasNotMeasured) {
  const std::vector<MeasuredPair> pairs = made_up("ad");
  const JobFactors factors(pairs, "G", std::vector<bool>(pairs.size(), true));
  EXPECT_NEAR(factors.speed(job("a", 1), job("d", 1)).value(), 0.9 * 1, 0.03);
  EXPECT_NEAR(factors.speed(job("d", 1), job("a", 1)).value(), 0.6 * 0.8, 0.03);
  EXPECT_FALSE(factors.knows_models(job("a", 1), job("d", 1)));
  EXPECT_TRUE(factors.knows_models(job("b", 1), job("a", 1)));
  EXPECT_FALSE(factors.speed(job("a", 2), job("d", 1))) << "another batch";
}

TEST(Pairs, MeasuredBeatsFactorsBeatLoads) {
  std::vector<MeasuredPair> pairs = made_up("ad");
  pairs.push_back(pair_of(job("b", 1), job("x", 1), 0.3, 0.4));
  const PairSpeeds speeds(pairs);
  const auto evidence = [&](const SharingJob& one, const SharingJob& other) {
    const auto estimate = speeds.speed("G", one, other, {});
    return estimate ? cost::evidence_name(estimate->evidence) : "none";
  };
  const cost::GpuLoad load{.busy = std::sqrt(0.5)};
  EXPECT_EQ(evidence({job("b", 1), load}, {job("x", 1), load}), "measured");
  EXPECT_EQ(evidence({job("a", 1), load}, {job("d", 1), load}), "calibrated");
  EXPECT_EQ(evidence({job("a", 2), load}, {job("d", 1), load}), "analytic");
  EXPECT_EQ(evidence({job("a", 2), {}}, {job("d", 1), load}), "none");
  EXPECT_EQ(speeds.speed("G", {job("x", 1), {}}, {job("b", 1), {}}, {})->speed, 0.4);
  EXPECT_DOUBLE_EQ(speeds.speed("H", {job("x", 1), load}, {job("b", 1), load}, {})->speed, 0.8);
}

/// The errors of the pairs of one kind of GPU.
struct Errors {
  double sum = 0, count = 0, within = 0;
};
std::map<std::string, Errors> errors_of(const std::vector<MeasuredPair>& pairs, PairsOut protocol,
                                        std::uint64_t seed) {
  std::map<std::string, Errors> errors;
  for (const PredictedSpeed& one : evaluate_pairs(pairs, protocol, seed)) {
    Errors& of_gpu = errors[pairs[one.pair].gpu];
    of_gpu.sum += std::abs(one.error());
    ++of_gpu.count;
    of_gpu.within += one.miss() <= one.bar ? 1 : 0;
  }
  return errors;
}

TEST(Pairs, ThatWereLeftOutArePredictedWithinTheirBars) {
  const std::vector<MeasuredPair> pairs = measured_pairs();
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    for (const auto& [gpu, errors] : errors_of(pairs, PairsOut::kThirds, seed)) {
      EXPECT_LE(errors.sum / errors.count, gpu == "V100" ? 0.2 : 0.065) << gpu << " " << seed;
      EXPECT_GE(errors.within / errors.count, kLeastCoverage) << gpu << " " << seed;
      EXPECT_LE(errors.within / errors.count, kMostCoverage) << gpu << " " << seed;
    }
  }
}

TEST(Pairs, OfModelsThatWereLeftOutAreLessCertain) {
  const std::vector<MeasuredPair> pairs = measured_pairs();
  for (const auto& [gpu, errors] : errors_of(pairs, PairsOut::kModels, 1)) {
    EXPECT_LE(errors.sum / errors.count, gpu == "V100" ? 0.35 : 0.12) << gpu;
    EXPECT_GE(errors.within / errors.count, kLeastCoverage) << gpu;
    EXPECT_LE(errors.within / errors.count, kMostCoverage) << gpu;
  }
}

TEST(Pairs, TheBarsOfLoadsAreThoseOfTheTable) {
  constexpr std::array<std::string_view, 2> kByTurns = {"K80", "P100"};
  constexpr std::array<std::string_view, 1> kSideBySide = {"V100"};
  const std::vector<MeasuredPair> pairs = measured_pairs();
  const auto predicted = evaluate_pairs(pairs, PairsOut::kModels, 1);
  EXPECT_NEAR(pairs_bar(pairs, predicted, kByTurns), cost::kTimeSlicesBar, 0.001);
  EXPECT_NEAR(pairs_bar(pairs, predicted, kSideBySide), cost::kSideBySideBar, 0.001);
}

TEST(Pairs, APairNeverInformsItsOwnPrediction) {
  std::vector<MeasuredPair> pairs = measured_pairs();
  const auto before = evaluate_pairs(pairs, PairsOut::kThirds, 1);
  const std::size_t pair = before.front().pair;
  pairs[pair].speeds = {0.01, 0.01};
  const auto after = evaluate_pairs(pairs, PairsOut::kThirds, 1);
  ASSERT_EQ(after.front().pair, pair);
  EXPECT_EQ(after.front().predicted, before.front().predicted);
}

TEST(Pairs, LoadsAreNvmlsFigures) {
  PairedJob one = job("a", 1);
  EXPECT_FALSE(load_of(one));
  one.utilization = 0.9;
  EXPECT_DOUBLE_EQ(cost::gpu_need(*load_of(one)), 0.81);
  one.memory_utilization = 0.4;
  EXPECT_DOUBLE_EQ(cost::gpu_need(*load_of(one)), (0.81 + 0.6) / 2);
}

}  // namespace
}  // namespace gpemu::calibrate
