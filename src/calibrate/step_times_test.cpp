// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/step_times.hpp"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace gpemu::calibrate {
namespace {

/// Parameters: the rate in bytes/s, the latency in s, a launch as a multiple of the host's scale,
/// that in s, and the waits of both phases in s.
constexpr int kRate = 0, kLatency = 1, kLaunch = 2, kScale = 3, kWait = 4;
constexpr std::size_t kParameters = 6;

const HostParameters kHost = {.scale = kScale, .synchronise = {kWait, kWait + 1}};

/// Operations that move so many bytes per sample.
class StreamTimes final : public OperationTimes {
 public:
  StreamTimes(std::vector<double> bytes_per_sample, std::vector<double> batches)
      : bytes_(std::move(bytes_per_sample)), batches_(std::move(batches)) {}

  [[nodiscard]] int operations() const override { return static_cast<int>(bytes_.size()); }
  [[nodiscard]] int batches() const override { return static_cast<int>(batches_.size()); }

  void price(std::span<const double> logarithms, std::span<double> seconds,
             std::span<Slopes> slopes) const override {
    const double rate = std::exp(logarithms[kRate]), latency = std::exp(logarithms[kLatency]);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const double transfer = bytes_[i / batches_.size()] * batches_[i % batches_.size()] / rate;
      seconds[i] = latency + transfer;
      if (slopes.empty()) continue;
      slopes[i] = {.parameters = {kRate, kLatency}, .values = {-transfer, latency}};
    }
  }

 private:
  std::vector<double> bytes_, batches_;
};

std::vector<std::vector<Phase>> two_steps() {
  const auto launch = [](int operation) {
    return Launch{.operation = operation, .host_cost = kLaunch};
  };
  return {{{launch(0), launch(1), launch(0)}, {launch(2), launch(1)}}, {{launch(2)}, {launch(0)}}};
}

const std::vector<double> kTrue = {std::log(8e11),  std::log(4e-6),  std::log(1),
                                   std::log(20e-6), std::log(30e-6), std::log(50e-6)};

TEST(StepTimes, DerivativesAreThoseOfThePrediction) {
  const StreamTimes streams({1e5, 4e6, 2e7}, {1, 8, 64});
  const std::vector<std::vector<Phase>> steps = two_steps();
  std::vector<StepTime> rows;
  for (int step = 0; step < 2; ++step) {
    for (int batch = 0; batch < 3; ++batch) rows.push_back({step, batch, {1e-3, 2e-3}});
  }
  const StepTimes times(steps, streams, rows, kHost);
  ASSERT_EQ(times.count(), 18);
  std::vector<double> residuals(18), derivatives(18 * kParameters), above(18), below(18);
  times.compare(kTrue, residuals, derivatives);
  for (std::size_t j = 0; j < kParameters; ++j) {
    constexpr double kStep = 1e-5;
    std::vector<double> moved = kTrue;
    moved[j] += kStep;
    times.compare(moved, above, {});
    moved[j] -= 2 * kStep;
    times.compare(moved, below, {});
    for (int i = 0; i < 18; ++i) {
      EXPECT_NEAR(derivatives[i * kParameters + j], (above[i] - below[i]) / (2 * kStep), 1e-6);
    }
  }
}

TEST(StepTimes, AFitFindsHostAndGpuApart) {
  const StreamTimes streams({1e5, 4e6, 2e7}, {1, 8, 64, 256});
  const std::vector<std::vector<Phase>> steps = two_steps();
  std::vector<StepTime> rows;
  for (int step = 0; step < 2; ++step) {
    for (int batch = 0; batch < 4; ++batch) rows.push_back({step, batch, {1, 1}});
  }
  const std::vector<std::vector<double>> truth =
      StepTimes(steps, streams, rows, kHost).predict(kTrue);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].phase_seconds = truth[i];
  const StepTimes times(steps, streams, rows, kHost);
  const Measurements* gpus[] = {&times};
  const auto parameter = [](std::string_view name, double typical) {
    return Parameter{name, typical, 2, 1, typical / 100, typical * 100};
  };
  std::vector<Parameter> parameters = {parameter("rate", 3e11), parameter("latency", 2e-6),
                                       parameter("launch", 1),  parameter("scale", 1e-5),
                                       parameter("wait", 1e-5), parameter("wait 2", 1e-5)};
  parameters[kLaunch].shared_spread = parameters[kLaunch].own_spread = 1e-3;  // Known.
  const Result<Fit> result = fit(parameters, gpus, {.noise = 1e-4, .outlier = 1e-2});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  for (std::size_t j = 0; j < kParameters; ++j) EXPECT_NEAR(result->own[0][j], kTrue[j], 0.02);
}

constexpr std::array kBatches = {1, 8, 64, 256};

TEST(StepTimes, OneBatchCorrectsThePartThatItShows) {
  const StreamTimes streams({1e5, 4e6, 2e7}, {kBatches.begin(), kBatches.end()});
  const std::vector<std::vector<Phase>> steps = two_steps();
  // This model's operations take twice what the parameters say, its launches three times.
  std::vector<double> truth = kTrue;
  truth[kRate] -= std::log(2);
  truth[kLatency] += std::log(2);
  truth[kScale] += std::log(3);
  std::vector<StepTime> rows;
  rows.reserve(4);
  for (const int batch : {0, 1, 2, 3}) rows.push_back({0, batch, {1, 1}});
  const auto measured = StepTimes(steps, streams, rows, kHost).predict(truth);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].phase_seconds = measured[i];
  const StepTimes times(steps, streams, rows, kHost);
  const auto share = [&](int known, int batch) {
    return times.predict_from(kTrue, std::span(rows).subspan(known, 1), kBatches)[batch][0] /
           measured[batch][0];
  };
  EXPECT_NEAR(share(3, 3), 1, 1e-6);  // Where it is known.
  // The device's time, which a large batch shows, and 1 / 4 of the batch corrects by 5 / 8.
  EXPECT_NEAR(share(3, 2), std::pow(2, 5. / 8 - 1), 0.1);
  EXPECT_NEAR(share(0, 0), 1, 1e-6);
  // The host's, which a small one shows.
  EXPECT_NEAR(share(0, 1), std::pow(3, 9. / 16 - 1), 0.1);
}

}  // namespace
}  // namespace gpemu::calibrate
