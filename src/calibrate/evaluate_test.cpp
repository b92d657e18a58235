// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/evaluate.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "test_gpu.hpp"

namespace gpemu::calibrate {
namespace {

TEST(Evaluate, FamiliesAreNamesUpToANumber) {
  EXPECT_EQ(family_of("resnext50_32x4d"), "resnext");
  EXPECT_EQ(family_of("resnet50"), "resnet");
  EXPECT_EQ(family_of("wide_resnet50_2"), "wide");
  EXPECT_EQ(family_of("vgg16_bn"), "vgg");
  EXPECT_EQ(family_of("alexnet"), "alexnet");
}

/// Two families of streaming models, and GPUs that run them at 70 % of their bandwidth.
class EvaluateStreams : public testing::Test {
 protected:
  EvaluateStreams() {
    std::vector<step::Recording> recordings;
    recordings.reserve(4);
    for (const char* name : {"small1", "small2", "large1", "large2"}) {
      const bool large = name[0] == 'l';
      step::RecordedOperation operation;
      operation.kind = GPEMU_OPERATION_ELEMENTWISE;
      operation.name = "stream";
      operation.type = GPEMU_TYPE_FP32;
      operation.shape[1] = {0, (large ? 50'000'000 : 5'000'000) + name[5] * 1000};
      recordings.push_back({.model = name,
                            .gpu = "V100-PCIE-32GB",
                            .batches = {16, 32, 48},
                            .operations = {operation},
                            .phases = {{"forward", {0, 0}}, {"backward", {0, 0, 0}}}});
    }
    recorded_ = join(recordings).value();
    for (const auto& [name, bandwidth] :
         {std::pair{"V100-PCIE-32GB", 900e9}, std::pair{"Quadro-RTX-6000", 672e9}}) {
      profile::GpuSpec spec;
      spec.name = name;
      spec.memory_bandwidth_bytes_per_s = bandwidth;
      gpus_.push_back(gpu_with(std::move(spec), recorded_, cost::kElementwise, 0.7));
    }
  }

  [[nodiscard]] std::vector<PredictedStep> evaluated(Protocol protocol) const {
    const auto steps = evaluate(recorded_, gpus_, protocol);
    EXPECT_TRUE(steps.has_value()) << steps.error().message;
    return steps.value_or(std::vector<PredictedStep>());
  }

  static double worst(const std::vector<PredictedStep>& steps) {
    double worst = 0;
    for (const PredictedStep& step : steps) worst = std::max(worst, std::abs(step.error()));
    return worst;
  }

  JoinedRecordings recorded_;
  std::vector<CalibratedGpu> gpus_;
};

TEST_F(EvaluateStreams, EachProtocolPredictsWhatItHoldsOut) {
  const std::size_t models = gpus_.size() * recorded_.models.size();
  const std::size_t batches = recorded_.batches.size();
  EXPECT_EQ(evaluated(Protocol::kInSample).size(), models * batches);
  EXPECT_EQ(evaluated(Protocol::kFamilyOut).size(), models * batches);
  EXPECT_EQ(evaluated(Protocol::kGpuOut).size(), models * (batches - 2));    // Not at 1 and 2.
  EXPECT_EQ(evaluated(Protocol::kOneBatch).size(), models * (batches - 1));  // Not at 32.
}

TEST_F(EvaluateStreams, WhatTheModelCanSayIsFound) {
  EXPECT_LT(worst(evaluated(Protocol::kInSample)), 0.02);
  EXPECT_LT(worst(evaluated(Protocol::kFamilyOut)), 0.05);
  EXPECT_LT(worst(evaluated(Protocol::kGpuOut)), 0.05);
}

TEST_F(EvaluateStreams, NothingOfAHeldOutGroupEntersItsFit) {
  // If it did, steps that contradict all others would pull their own predictions.
  const std::vector<PredictedStep> before = evaluated(Protocol::kFamilyOut);
  for (CalibratedGpu& gpu : gpus_) {
    for (StepTime& row : gpu.measured) {
      if (row.step >= 2) {
        for (double& seconds : row.phase_seconds) seconds *= 3;
      }
    }
  }
  const std::vector<PredictedStep> after = evaluated(Protocol::kFamilyOut);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].model >= 2) {
      EXPECT_EQ(before[i].predicted_seconds, after[i].predicted_seconds);
    }
  }
}

TEST_F(EvaluateStreams, AMeasuredBatchScalesTheOthers) {
  // What a model's operations do not say, one batch does.
  for (CalibratedGpu& gpu : gpus_) {
    for (StepTime& row : gpu.measured) {
      if (row.step == 3) {
        for (double& seconds : row.phase_seconds) seconds *= 1.5;
      }
    }
  }
  for (const PredictedStep& step : evaluated(Protocol::kOneBatch)) {
    if (step.model == 3 && step.batch >= 32) {
      // Half of it all over, half of the rest where the batch is twice as large, ...
      const double share = (1 + 32.0 / step.batch) / 2;
      EXPECT_NEAR(1 + step.error(), std::pow(1.5, share - 1), 0.05) << step.batch;
    }
  }
}

}  // namespace
}  // namespace gpemu::calibrate
