// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/recorded_steps.hpp"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace gpemu::calibrate {
namespace {

using cost::AffineEntry;
using cost::RecordedOperation;

RecordedOperation stream(std::int64_t per_sample, gpemu_data_type type = GPEMU_TYPE_FP32) {
  RecordedOperation operation;
  operation.kind = GPEMU_OPERATION_ELEMENTWISE;
  operation.name = "stream";
  operation.type = type;
  operation.shape[0] = operation.shape[1] = AffineEntry{0, per_sample};
  return operation;
}

cost::Recording recording(std::string model, std::vector<RecordedOperation> operations) {
  std::vector<int> all(operations.size());
  std::iota(all.begin(), all.end(), 0);
  return {.model = std::move(model),
          .gpu = "V100-PCIE-32GB",
          .batches = {16, 32, 48},
          .operations = std::move(operations),
          .phases = {{"forward", all}, {"backward", {0}}}};
}

TEST(RecordedSteps, OperationsOfSeveralModelsAreThereOnce) {
  const std::vector<cost::Recording> recordings = {
      recording("one", {stream(1 << 20), stream(1 << 10)}),
      recording("two", {stream(1 << 10), stream(1 << 20), stream(7)})};
  const Result<RecordedSteps> joined = join(recordings);
  ASSERT_TRUE(joined.has_value()) << joined.error().message;
  EXPECT_EQ(joined->operations.size(), 3U);
  const Phase& second = joined->steps[1][0];
  ASSERT_EQ(second.size(), 3U);
  EXPECT_EQ(second[0].operation, 1);
  EXPECT_EQ(second[1].operation, 0);
  EXPECT_EQ(second[0].host_cost, cost::kHostOperation);
  EXPECT_EQ(joined->steps[1][1][0].host_cost, cost::kHostSmall);
}

TEST(RecordedSteps, RefusesWhatIsNoTrainingStep) {
  cost::Recording half = recording("half", {stream(1)});
  half.phases.pop_back();
  const Result<RecordedSteps> joined = join(std::vector{half});
  ASSERT_FALSE(joined.has_value());
  EXPECT_NE(joined.error().message.find("half has no phase backward"), std::string::npos);
  EXPECT_FALSE(
      join(std::vector{recording("a", {stream(1)}), recording("a", {stream(1)})}).has_value());
}

TEST(RecordedSteps, WhatComesAlongCostsTheHostNothingOfItsOwn) {
  RecordedOperation conv = stream(1);
  conv.kind = GPEMU_OPERATION_CONVOLUTION_FORWARD;
  RecordedOperation bias = stream(1);
  bias.access = GPEMU_ACCESS_STRIDED;
  RecordedOperation counter = stream(0, GPEMU_TYPE_INT64);
  counter.shape[0] = counter.shape[1] = AffineEntry{1, 0};
  EXPECT_EQ(host_cost(conv, nullptr, true), cost::kHostConvolution);
  EXPECT_EQ(host_cost(bias, &conv, true), cost::kHostPart);
  EXPECT_EQ(host_cost(bias, nullptr, true), cost::kHostOperation);
  EXPECT_EQ(host_cost(counter, &bias, true), cost::kHostPart);
}

TEST(RecordedTimes, DerivativesAreThoseOfTheTimes) {
  const Result<RecordedSteps> joined =
      join(std::vector{recording("one", {stream(1 << 20), stream(3)})});
  ASSERT_TRUE(joined.has_value());
  profile::GpuSpec spec;
  spec.fp32_flops = 10e12;
  spec.memory_bandwidth_bytes_per_s = 1e12;
  spec.multiprocessors = 100;
  spec.boost_clock_mhz = 1000;
  const RecordedTimes times(*joined, spec);
  std::vector<double> logarithms;
  logarithms.reserve(cost::kOperationParameterCount);
  for (const Parameter& parameter : cost::kOperationParameters) {
    logarithms.push_back(std::log(parameter.typical));
  }
  const std::size_t count = logarithms.size();
  const std::size_t rows = joined->operations.size() * joined->batches.size();
  std::vector<double> seconds(rows), above(rows), derivatives(rows * count);
  times.price(logarithms, seconds, derivatives);
  for (std::size_t j = 0; j < count; ++j) {
    constexpr double kStep = 1e-6;
    std::vector<double> moved = logarithms;
    moved[j] += kStep;
    times.price(moved, above, {});
    for (std::size_t i = 0; i < rows; ++i) {
      EXPECT_NEAR(derivatives[i * count + j] / seconds[i],
                  (above[i] - seconds[i]) / kStep / seconds[i], 1e-5);
    }
  }
}

}  // namespace
}  // namespace gpemu::calibrate
