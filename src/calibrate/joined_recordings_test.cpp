// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/joined_recordings.hpp"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace gpemu::calibrate {
namespace {

using step::AffineEntry;
using step::RecordedOperation;

RecordedOperation stream(std::int64_t per_sample, gpemu_data_type type = GPEMU_TYPE_FP32) {
  RecordedOperation operation;
  operation.kind = GPEMU_OPERATION_ELEMENTWISE;
  operation.name = "stream";
  operation.type = type;
  operation.shape[0] = operation.shape[1] = AffineEntry{0, per_sample};
  return operation;
}

step::Recording recording(std::string model, std::vector<RecordedOperation> operations) {
  std::vector<int> all(operations.size());
  std::iota(all.begin(), all.end(), 0);
  return {.model = std::move(model),
          .gpu = "V100-PCIE-32GB",
          .batches = {16, 32, 48},
          .operations = std::move(operations),
          .phases = {{"forward", all}, {"backward", {0}}}};
}

TEST(JoinedRecordings, OperationsOfSeveralModelsAreThereOnce) {
  const std::vector<step::Recording> recordings = {
      recording("one", {stream(1 << 20), stream(1 << 10)}),
      recording("two", {stream(1 << 10), stream(1 << 20), stream(7)})};
  const Result<JoinedRecordings> joined = join(recordings);
  ASSERT_TRUE(joined.has_value()) << joined.error().message;
  EXPECT_EQ(joined->operations.size(), 3U);
  const Phase& second = joined->steps[1][0];
  ASSERT_EQ(second.size(), 3U);
  EXPECT_EQ(second[0].operation, 1);
  EXPECT_EQ(second[1].operation, 0);
  EXPECT_EQ(second[0].host_cost, cost::kHostOperation);
  EXPECT_EQ(joined->steps[1][1][0].host_cost, cost::kHostSmall);
}

TEST(JoinedRecordings, RefusesWhatIsNoTrainingStep) {
  step::Recording half = recording("half", {stream(1)});
  half.phases.pop_back();
  const Result<JoinedRecordings> joined = join(std::vector{half});
  ASSERT_FALSE(joined.has_value());
  EXPECT_NE(joined.error().message.find("half has no phase backward"), std::string::npos);
  EXPECT_FALSE(
      join(std::vector{recording("a", {stream(1)}), recording("a", {stream(1)})}).has_value());
}

TEST(JoinedRecordings, WhatComesAlongCostsTheHostNothingOfItsOwn) {
  RecordedOperation conv = stream(1);
  conv.kind = GPEMU_OPERATION_CONVOLUTION_FORWARD;
  RecordedOperation bias = stream(1);
  bias.access = GPEMU_ACCESS_STRIDED;
  RecordedOperation counter = stream(0, GPEMU_TYPE_INT64);
  counter.shape[0] = counter.shape[1] = AffineEntry{1, 0};
  EXPECT_EQ(host_cost(conv, {}, true), cost::kHostConvolution);
  EXPECT_EQ(host_cost(bias, {.previous = &conv}, true), cost::kHostPart);
  EXPECT_EQ(host_cost(bias, {}, true), cost::kHostOperation);
  EXPECT_EQ(host_cost(counter, {.previous = &bias}, true), cost::kHostOperation)
      << "hosts were fitted so";
}

RecordedOperation operation(gpemu_operation_kind kind, const std::vector<std::int64_t>& shape) {
  RecordedOperation operation = stream(0);
  operation.kind = kind;
  operation.shape[0] = {0, shape[0]};  // The batch's, or proportional to it.
  for (std::size_t i = 1; i < shape.size(); ++i) operation.shape[i] = {shape[i], 0};
  return operation;
}

RecordedOperation convolution(gpemu_operation_kind kind, std::int64_t channels, std::int64_t filter,
                              std::int64_t groups) {
  return operation(kind, {1, channels, channels, groups, 2, 28, 28, 1, filter, filter,
                          1, 28,       28,       1,      1, 1,  1,  1, 1,      1});
}

/// An operation of each kind that the model tells apart.
std::vector<RecordedOperation> one_of_each() {
  std::vector<RecordedOperation> operations = {
      stream(1 << 20),
      stream(3),
      operation(GPEMU_OPERATION_MATMUL, {1, 100, 200, 300}),
      operation(GPEMU_OPERATION_NORMALIZATION_FORWARD, {1 << 16, 64}),
      operation(GPEMU_OPERATION_NORMALIZATION_BACKWARD, {1 << 16, 64}),
      operation(GPEMU_OPERATION_POOLING, {1 << 16, 1 << 14}),
      operation(GPEMU_OPERATION_REDUCTION, {1 << 16, 10})};
  operations[1].access = GPEMU_ACCESS_STRIDED;
  for (const auto kind :
       {GPEMU_OPERATION_CONVOLUTION_FORWARD, GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA,
        GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER}) {
    for (const std::int64_t filter : {1, 3, 5, 7}) {
      for (const std::int64_t groups : {1, 8, 64}) {
        operations.push_back(convolution(kind, 64, filter, groups));
      }
    }
  }
  return operations;
}

TEST(RecordedTimes, DerivativesAreThoseOfTheTimes) {
  const Result<JoinedRecordings> joined = join(std::vector{recording("one", one_of_each())});
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
  std::vector<Slopes> slopes(rows);
  times.price(logarithms, seconds, slopes);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < slopes[i].values.size(); ++j) {
      derivatives[i * count + slopes[i].parameters[j]] += slopes[i].values[j];
    }
  }
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
