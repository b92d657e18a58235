// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/calibration.hpp"

#include <utility>

#include <gtest/gtest.h>

#include "gpemu/kernels/described_operation.hpp"

#include "test_gpu.hpp"

namespace gpemu::calibrate {
namespace {

/// Convolutions on a GPU that runs them at a third of its peak.
class CalibrateGpus : public testing::Test {
 protected:
  CalibrateGpus() {
    std::vector<step::Recording> recordings;
    for (const int channels : {64, 128, 256}) {
      step::RecordedOperation operation;
      operation.kind = GPEMU_OPERATION_CONVOLUTION_FORWARD;
      operation.name = "conv";
      operation.type = GPEMU_TYPE_FP32;
      operation.compute_type = GPEMU_TYPE_TF32;
      operation.shape[0] = {0, 1};
      for (const auto& [index, value] : {std::pair{1, channels},
                                         {2, channels},
                                         {3, 1},
                                         {4, 2},
                                         {5, 56},
                                         {6, 56},
                                         {8, 1},
                                         {9, 1},
                                         {11, 56},
                                         {12, 56},
                                         {14, 1},
                                         {15, 1},
                                         {17, 1},
                                         {18, 1}}) {
        operation.shape.at(index) = {value, 0};
      }
      recordings.push_back({.model = "model" + std::to_string(channels),
                            .gpu = "V100-PCIE-32GB",
                            .batches = {16, 32, 48},
                            .operations = {operation},
                            .phases = {{"forward", {0, 0, 0}}, {"backward", {0, 0}}}});
    }
    recorded_ = join(recordings).value();
    add("V100-PCIE-32GB", 7, 0, {});
    add("Quadro-RTX-6000", 7, 5, {});
    add("A100-SXM4-40GB", 8, 0, 156e12);
    gpus_[0].spec.fp16_tensor_flops = 112e12;
    gpus_[1].spec.fp16_tensor_flops = 130e12;
  }

  void add(const char* name, int major, int minor, std::optional<double> tf32_flops) {
    profile::GpuSpec spec;
    spec.name = name;
    spec.compute_capability_major = major;
    spec.compute_capability_minor = minor;
    spec.generation = profile::generation_facts(major, minor).value();
    spec.tf32_tensor_flops = tf32_flops;
    spec.memory_bandwidth_bytes_per_s = 900e9;
    gpus_.push_back(gpu_with(std::move(spec), recorded_, cost::kConvolutionForward, 1.0 / 3));
  }

  JoinedRecordings recorded_;
  std::vector<CalibratedGpu> gpus_;
};

TEST_F(CalibrateGpus, FindsWhatTheStepsTell) {
  const auto calibrations = calibrate_gpus(recorded_, gpus_);
  ASSERT_TRUE(calibrations) << calibrations.error().message;
  ASSERT_EQ(calibrations->size(), 3U);
  for (const profile::Calibration& calibration : *calibrations) {
    EXPECT_EQ(calibration.models, 3);
    EXPECT_EQ(calibration.steps, 3 * static_cast<int>(recorded_.batches.size()));
    EXPECT_LT(calibration.error, 0.02);
    const profile::OperationParameters& parameters = calibration.parameters;
    EXPECT_NEAR(parameters[cost::kConvolutionForward] * parameters[cost::kPointwiseForward],
                1.0 / 3, 0.05)
        << calibration.gpu;
  }
  EXPECT_EQ((*calibrations)[0].gpu, "V100-PCIE-32GB");
  EXPECT_FALSE((*calibrations)[0].tensor_cores) << "its tensor cores know no TF32";
  EXPECT_TRUE((*calibrations)[2].tensor_cores);
  EXPECT_EQ(calibrate_gpus(recorded_, gpus_)->at(2).parameters, calibrations->at(2).parameters);
}

TEST_F(CalibrateGpus, SingleOperationsTakePart) {
  // Steps have no products; ten of them take twice what their arithmetic would at the peak.
  step::RecordedOperation product;
  product.kind = GPEMU_OPERATION_MATMUL;
  product.name = "product";
  product.type = product.compute_type = GPEMU_TYPE_FP32;
  product.operation_class = kernels::OperationClass::kMatmul;
  CalibratedGpu& gpu = gpus_.front();
  for (int i = 0; i < 10; ++i) {
    const std::int64_t rows = 128 * 80 * (i + 1);
    for (const auto& [index, size] : {std::pair{0, std::int64_t{1}},
                                      {1, rows},
                                      {2, std::int64_t{1280}},
                                      {3, std::int64_t{4096}}}) {
      product.shape.at(index) = {size, 0};
    }
    step::PublishedStep operation;
    operation.is_operation = true;
    operation.operations = {{product, 1, 0}};
    operation.seconds = {
        {gpu.spec.name, 4.0 * static_cast<double>(rows) * 1280 * 4096 / gpu.spec.fp32_flops}};
    gpu.operations.push_back(std::move(operation));
  }
  const auto calibrations = calibrate_gpus(recorded_, gpus_);
  if (!calibrations && calibrations.error().code == ErrorCode::kUnsupported) GTEST_SKIP();
  ASSERT_TRUE(calibrations) << calibrations.error().message;
  EXPECT_NEAR(calibrations->front().parameters[cost::kMatmul], 0.5, 0.05);
  EXPECT_EQ(calibrations->front().steps, static_cast<int>(gpu.measured.size()));
}

TEST_F(CalibrateGpus, NamesWhoKnowsTheOtherArithmetic) {
  std::vector<profile::Calibration> calibrations(3);
  for (std::size_t i = 0; i < gpus_.size(); ++i) calibrations[i].gpu = gpus_[i].spec.name;
  EXPECT_EQ(other_arithmetic(gpus_[2], gpus_, calibrations), "");
  calibrations[2].tensor_cores = true;
  EXPECT_EQ(other_arithmetic(gpus_[0], gpus_, calibrations), "A100-SXM4-40GB");
  EXPECT_EQ(other_arithmetic(gpus_[1], gpus_, calibrations), "A100-SXM4-40GB");
  EXPECT_EQ(other_arithmetic(gpus_[2], gpus_, calibrations), "V100-PCIE-32GB")
      << "its memory is the nearest";
  gpus_[0].spec.fp16_tensor_flops.reset();
  EXPECT_EQ(other_arithmetic(gpus_[0], gpus_, calibrations), "");
}

}  // namespace
}  // namespace gpemu::calibrate
