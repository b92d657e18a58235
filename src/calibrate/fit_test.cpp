// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/fit.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace gpemu::calibrate {
namespace {

/// Times of streaming kernels: `latency` + bytes / `rate`; the second parameter may be unseen.
class Streams final : public Measurements {
 public:
  struct Row {
    double bytes;
    double seconds;
  };
  explicit Streams(std::vector<Row> rows) : rows_(std::move(rows)) {}

  [[nodiscard]] int count() const override { return static_cast<int>(rows_.size()); }

  void compare(std::span<const double> logarithms, std::span<double> residuals,
               std::span<double> derivatives) const override {
    const double latency = std::exp(logarithms[0]), rate = std::exp(logarithms[1]);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const double transfer = rows_[i].bytes / rate, predicted = latency + transfer;
      residuals[i] = std::log(predicted / rows_[i].seconds);
      if (derivatives.empty()) continue;
      derivatives[2 * i] = latency / predicted;
      derivatives[2 * i + 1] = -transfer / predicted;
    }
  }

 private:
  std::vector<Row> rows_;
};

Streams measured(double latency, double rate, const std::vector<double>& sizes) {
  std::vector<Streams::Row> rows;
  rows.reserve(sizes.size());
  for (const double bytes : sizes) rows.push_back({bytes, latency + bytes / rate});
  return Streams(rows);
}

std::vector<Parameter> two_parameters() {
  return {{.name = "latency",
           .typical = 3e-6,
           .shared_spread = 1,
           .own_spread = 0.3,
           .least = 1e-7,
           .most = 1e-3},
          {.name = "rate",
           .typical = 5e11,
           .shared_spread = 1,
           .own_spread = 0.3,
           .least = 1e9,
           .most = 1e13}};
}

const std::vector<double> kSizes = {1e4, 1e5, 1e6, 1e7, 1e8};

TEST(Fit, FindsWhatTheDataWereMadeWith) {
  const Streams gpu = measured(5e-6, 8e11, kSizes);
  const Measurements* gpus[] = {&gpu};
  const Result<Fit> result = fit(two_parameters(), gpus, {.noise = 0.001, .outlier = 0.01});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_NEAR(std::exp(result->own[0][0]), 5e-6, 5e-8);
  EXPECT_NEAR(std::exp(result->own[0][1]), 8e11, 8e9);
}

TEST(Fit, JoinedMeasurementsAreThoseOfBoth) {
  const Streams some = measured(5e-6, 8e11, {1e4, 1e5}), others = measured(5e-6, 8e11, {1e7});
  const JoinedMeasurements joined(some, others);
  ASSERT_EQ(joined.count(), 3);
  const std::vector<double> logarithms = {std::log(4e-6), std::log(7e11)};
  std::vector<double> residuals(3), slopes(6), first(2), first_slopes(4), second(1),
      second_slopes(2);
  joined.compare(logarithms, residuals, slopes);
  some.compare(logarithms, first, first_slopes);
  others.compare(logarithms, second, second_slopes);
  EXPECT_EQ(residuals, (std::vector<double>{first[0], first[1], second[0]}));
  first_slopes.insert(first_slopes.end(), second_slopes.begin(), second_slopes.end());
  EXPECT_EQ(slopes, first_slopes);
  std::vector<double> alone(3);
  joined.compare(logarithms, alone, {});
  EXPECT_EQ(alone, residuals);
}

TEST(Fit, AnOutlierMovesLittle) {
  std::vector<Streams::Row> rows(20, {1e8, 1e8 / 8e11});
  rows.push_back({1e8, 10 * 1e8 / 8e11});
  const Streams gpu(rows);
  const Measurements* gpus[] = {&gpu};
  const Result<Fit> result = fit(two_parameters(), gpus);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_NEAR(std::exp(result->own[0][1]), 8e11, 0.05 * 8e11);
}

TEST(Fit, AGpuWithoutEvidenceGetsWhatTheOthersHave) {
  // The third GPU has no size at which its rate would show.
  const Streams first = measured(5e-6, 8e11, kSizes), second = measured(5e-6, 8e11, kSizes),
                third = measured(5e-6, 8e11, {1, 2});
  const Measurements* gpus[] = {&first, &second, &third};
  const Result<Fit> result = fit(two_parameters(), gpus);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_NEAR(result->own[2][1], result->shared[1], 0.05);
  EXPECT_GT(result->own[2][1], std::log(7e11));
}

TEST(Fit, ParametersStayWithinTheirBounds) {
  const Streams gpu = measured(5e-6, 8e11, kSizes);
  const Measurements* gpus[] = {&gpu};
  std::vector<Parameter> parameters = two_parameters();
  parameters[1].most = 6e11;
  const Result<Fit> result = fit(parameters, gpus);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_LE(std::exp(result->own[0][1]), 6e11 * (1 + 1e-9));
}

TEST(Fit, RefitMovesOnlyWhatIsChosen) {
  const Streams gpu = measured(5e-6, 8e11, kSizes);
  const std::vector<double> start = {std::log(2e-6), std::log(8e11)};
  const int chosen[] = {0};
  const auto result = refit(two_parameters(), gpu, start, chosen);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ((*result)[1], start[1]);
  EXPECT_NEAR(std::exp((*result)[0]), 5e-6, 1e-7);
}

TEST(Fit, RefusesBoundsThatMakeNoSense) {
  const Streams gpu = measured(5e-6, 8e11, kSizes);
  const Measurements* gpus[] = {&gpu};
  std::vector<Parameter> parameters = two_parameters();
  parameters[0].least = 1;
  const Result<Fit> result = fit(parameters, gpus);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("parameter latency"), std::string::npos);
}

}  // namespace
}  // namespace gpemu::calibrate
