// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/published.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <gtest/gtest.h>

#include "gpemu/cost/copy_cost.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/step/step_bar.hpp"

namespace gpemu::calibrate {
namespace {

#if defined(GPEMU_SANITIZE_ADDRESS) || defined(GPEMU_SANITIZE_THREAD)
constexpr bool kSanitized = true;  // A fit to all steps takes a minute there.
#else
constexpr bool kSanitized = false;
#endif

TEST(Published, FamiliesAreNamesWithoutPortsAndSizes) {
  EXPECT_EQ(published_family("gluon_resnext50_32x4d"), "resnext");
  EXPECT_EQ(published_family("tv_resnet50"), "resnet");
  EXPECT_EQ(published_family("regnety_016"), "regnety");
  EXPECT_EQ(published_family("vgg19_bn"), "vgg");
}

TEST(Published, SomeFamiliesAreHeldOutForGood) {
  int held_out = 0;
  constexpr std::array kFamilies = {"resnext", "regnetx", "regnety", "regnetz", "deit", "xcit",
                                    "cait",    "vgg",     "hrnet",   "dpn",     "gpt",  "opt",
                                    "resmlp",  "twins",   "tnt",     "convit"};
  for (const char* family : kFamilies) held_out += is_held_out(family) ? 1 : 0;
  EXPECT_GE(held_out, 1);
  EXPECT_LE(held_out, 8);
  EXPECT_EQ(is_held_out("resnext"), is_held_out("resnext"));
}

/// The steps of the project, and the GPUs that price those of the RTX 3090.
class PublishedData : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto read = step::read_published_steps(GPEMU_PUBLISHED_FOLDER "/operations");
    ASSERT_TRUE(read) << read.error().message;
    steps_ = *std::move(read);
  }
  static void TearDownTestSuite() { steps_.clear(); }

  void SetUp() override {
    ASSERT_FALSE(steps_.empty());
    gpu_ = load("RTX-3090");
    start_ = load("A100-SXM4-40GB");
    ASSERT_TRUE(gpu_.calibration && start_.calibration);
    gpu_.other_arithmetic = load(gpu_.other_arithmetic_like).calibration;
  }

  static profile::GpuSpec load(const std::string& name) {
    auto spec = profile::load_gpu_spec(GPEMU_GPUS_FOLDER "/" + name + ".toml");
    EXPECT_TRUE(spec) << name;
    return spec ? *std::move(spec) : profile::GpuSpec{};
  }

  static bool held_out(const step::PublishedStep& step) {
    return is_held_out(published_family(step.model));
  }

  /// Read once: for a sanitizer, that is most of a test's work.
  static inline std::vector<step::PublishedStep> steps_;
  profile::GpuSpec gpu_, start_;
};

TEST_F(PublishedData, ACopyDelaysItsStep) {
  step::PublishedStep step = steps_.front();
  const double without = predict_published(step, gpu_).predicted_seconds;
  const cost::CopyCost copy = cost::copy_cost(gpu_);
  const double bytes_per_s = copy.pageable_share * gpu_.pinned_copy_bytes_per_s;
  step.copied = 1;
  const double with_little = predict_published(step, gpu_).predicted_seconds;
  EXPECT_GE(with_little - without, to_seconds(copy.latency)) << "and the host waits for it";
  step.copied = 10'000'001;
  EXPECT_NEAR(predict_published(step, gpu_).predicted_seconds - with_little, 1e7 / bytes_per_s,
              1e-9);
}

/// A product that takes much longer than its launch, and many that take much less.
TEST_F(PublishedData, WhatTheGpuHasToDoLastIsNotHiddenBehindTheHost) {
  step::CountedOperation product{.operation = {.kind = GPEMU_OPERATION_MATMUL,
                                               .operation_class = kernels::OperationClass::kMatmul,
                                               .type = GPEMU_TYPE_FP16,
                                               .compute_type = GPEMU_TYPE_FP16}};
  for (const int i : {0, 1, 2, 3}) product.operation.shape[i].constant = i == 0 ? 1 : 8192;
  step::CountedOperation small = product;
  for (const int i : {1, 2, 3}) small.operation.shape[i].constant = 8;
  const auto answer = [&](int products_first, int small_then, int products_then) {
    step::PublishedStep step{.training = true, .copied = 1};
    product.forward = products_first;
    small.forward = small_then;
    step.operations = {product, small};
    product.forward = 0;
    product.backward = products_then;
    if (products_then > 0) step.operations.push_back(product);
    std::erase_if(step.operations, [](const step::CountedOperation& operation) {
      return operation.forward + operation.backward == 0;
    });
    return predict_published(step, gpu_);
  };
  const double one = answer(1, 0, 0).predicted_seconds;
  const PublishedAnswer first = answer(1, 2000, 0), last = answer(0, 2000, 1);
  EXPECT_NEAR(last.predicted_seconds - first.predicted_seconds, one, 0.05 * one);
  EXPECT_NEAR(first.host_share, 1, 0.05);
  EXPECT_NEAR(first.bar, step::kHostError, 1e-3);
  // What the forward pass asks for first comes last in the backward pass.
  step::PublishedStep step{.training = true, .copied = 1};
  product.forward = product.backward = 1;
  small.forward = small.backward = 1000;
  step.operations = {product, small};
  const double both = predict_published(step, gpu_).predicted_seconds;
  const double host = both * predict_published(step, gpu_).host_share;
  EXPECT_NEAR(both - host, one, 0.2 * one);
  step.copied = 0;
  EXPECT_LT(predict_published(step, gpu_).predicted_seconds, both - 0.5 * one)
      << "the host goes on with the next step";
}

TEST_F(PublishedData, HeldOutTrainingStepsArePredictedWithinTheirBars) {
  double errors = 0, within = 0, count = 0;
  for (const step::PublishedStep& step : steps_) {
    if (!step.training || step.source != "timm" || !held_out(step)) continue;
    PublishedAnswer answer = predict_published(step, gpu_);
    answer.measured_seconds = step.seconds.front().second;
    errors += std::abs(answer.error());
    within += answer.miss() <= answer.bar ? 1 : 0;
    ++count;
  }
  ASSERT_GT(count, 90);
  EXPECT_LT(errors / count, 0.105);
  EXPECT_GT(within / count, 0.85);
  EXPECT_LT(within / count, 0.98);
}

/// The file's parameters are what the fit gives, to the four digits that it keeps.
TEST_F(PublishedData, TheGpusFileHasWhatTheStepsGive) {
  int seen = 0;
  const auto fitted = calibrate_published(steps_, gpu_, *start_.calibration, [&](const auto& step) {
    return !held_out(step) && (!kSanitized || ++seen % 20 == 0);
  });
  if (!fitted && fitted.error().code == ErrorCode::kUnsupported) GTEST_SKIP() << "no solver";
  ASSERT_TRUE(fitted) << fitted.error().message;
  EXPECT_TRUE(fitted->half);
  if (kSanitized) return;
  EXPECT_EQ(fitted->steps, gpu_.calibration->steps);
  for (int i = 0; i < profile::kFirstHostParameter; ++i) {
    EXPECT_NEAR(fitted->parameters.at(i) / gpu_.calibration->parameters.at(i), 1, 0.02)
        << profile::kOperationParameters.at(i).name;
  }
}

/// The same of the GPUs that have steps in FP32 as well, but no TF32.
TEST_F(PublishedData, TheFilesOfTuringGpusHaveWhatTheStepsGive) {
  const auto find = [](std::string_view name) -> Result<profile::GpuSpec> {
    return load(std::string(name));
  };
  for (const std::string name : {"RTX-2080-Ti", "TITAN-RTX"}) {
    const auto gpu =
        profile::load_gpu_spec(std::string(GPEMU_PUBLISHED_FOLDER "/gpus/") + name + ".toml");
    ASSERT_TRUE(gpu && gpu->calibration) << name;
    const auto start = start_of_fit(*gpu, find);
    ASSERT_TRUE(start) << start.error().message;
    const auto fitted = calibrate_published(steps_, *gpu, *start->calibration,
                                            [](const auto& step) { return !held_out(step); });
    if (!fitted && fitted.error().code == ErrorCode::kUnsupported) GTEST_SKIP() << "no solver";
    ASSERT_TRUE(fitted) << fitted.error().message;
    EXPECT_TRUE(fitted->has_all_arithmetic());
    EXPECT_FALSE(fitted->tf32);
    EXPECT_EQ(fitted->steps, gpu->calibration->steps);
    for (int i = 0; i < profile::kFirstHostParameter; ++i) {
      EXPECT_NEAR(fitted->parameters.at(i) / gpu->calibration->parameters.at(i), 1, 0.02)
          << name << " " << profile::kOperationParameters.at(i).name;
    }
    double errors = 0;
    int count = 0;
    for (const step::PublishedStep& step : steps_) {
      const auto time =
          std::ranges::find(step.seconds, name, &decltype(step.seconds)::value_type::first);
      if (!held_out(step) || time == step.seconds.end()) continue;
      PublishedAnswer answer = predict_published(step, *gpu);
      answer.measured_seconds = time->second;
      errors += std::abs(answer.error());
      ++count;
    }
    EXPECT_EQ(count, 4);
    EXPECT_LT(errors / count, 0.13) << name << ", of the family that took no part";
    if (kSanitized) continue;
    const auto bars = published_bars(steps_, *gpu, *start->calibration);
    ASSERT_TRUE(bars) << bars.error().message;
    const profile::CalibrationBars& kept = *gpu->calibration->bars;
    EXPECT_NEAR(bars->unseen_model, kept.unseen_model, 0.005) << name;
    ASSERT_TRUE(bars->fp32 && kept.fp32) << name;
    EXPECT_NEAR(*bars->fp32, *kept.fp32, 0.005) << name;
    EXPECT_FALSE(bars->tf32 || kept.tf32) << name;
  }
}

TEST_F(PublishedData, AFitNeedsStepsIn16Bits) {
  const auto fitted = calibrate_published(steps_, load("T4"), *start_.calibration,
                                          [](const auto& step) { return !held_out(step); });
  ASSERT_FALSE(fitted);
  EXPECT_EQ(fitted.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(fitted.error().message, "no published step in 16 bits ran on T4");
}

TEST_F(PublishedData, ABarNeedsStepsOfTwoFamilies) {
  profile::GpuSpec alone = gpu_;
  alone.name = "RTX-3090-Ti";
  std::vector<step::PublishedStep> steps;
  for (const step::PublishedStep& step : steps_) {
    if (published_family(step.model) != "deit" || step.precision != "amp") continue;
    steps.push_back(step);
    steps.back().seconds = {{alone.name, 1.0}};
  }
  ASSERT_GT(steps.size(), 9U);
  for (const auto& few : {std::vector<step::PublishedStep>(), steps}) {
    const auto bars = published_bars(few, alone, *start_.calibration);
    ASSERT_FALSE(bars);
    EXPECT_EQ(bars.error().message,
              "too few published steps in 16 bits ran on RTX-3090-Ti to tell a bar");
  }
}

/// Our own measurements on an H200: what its file has is what they give.
TEST_F(PublishedData, TheH200sFileHasWhatItsMeasurementsGive) {
  const auto steps = step::read_published_steps(GPEMU_PUBLISHED_FOLDER "/../ours/h200/operations");
  ASSERT_TRUE(steps) << steps.error().message;
  const profile::GpuSpec gpu = load("H200-SXM-141GB");
  ASSERT_TRUE(gpu.calibration);
  const auto start = start_of_fit(gpu, [](std::string_view name) -> Result<profile::GpuSpec> {
    return load(std::string(name));
  });
  ASSERT_TRUE(start) << start.error().message;
  int seen = 0;
  const auto fitted = calibrate_published(*steps, gpu, *start->calibration, [&](const auto& step) {
    return (step.is_operation || !held_out(step)) && (!kSanitized || ++seen % 20 == 0);
  });
  if (!fitted && fitted.error().code == ErrorCode::kUnsupported) GTEST_SKIP() << "no solver";
  ASSERT_TRUE(fitted) << fitted.error().message;
  EXPECT_TRUE(fitted->has_all_arithmetic());
  if (kSanitized) return;
  const auto expect_same = [&](const auto& made, const auto& kept, int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_NEAR(made.at(i) / kept.at(i), 1, 0.02) << profile::kOperationParameters.at(i).name;
    }
  };
  expect_same(fitted->parameters, gpu.calibration->parameters, profile::kFirstHostParameter);
  expect_same(*fitted->tf32, *gpu.calibration->tf32, profile::kFirstCommonParameter);
  expect_same(*fitted->fp32, *gpu.calibration->fp32, profile::kFirstCommonParameter);
}

TEST_F(PublishedData, AGpuWithoutItsOwnStepsHasTheParametersOfAnother) {
  const auto find = [](std::string_view name) -> Result<profile::GpuSpec> {
    return load(std::string(name));
  };
  const profile::GpuSpec h200 = load("H200-SXM-141GB");
  const auto without = without_own_steps(h200, find);
  ASSERT_TRUE(without && without->calibration && h200.calibration);
  EXPECT_EQ(without->calibration->gpu, "H100-SXM5-80GB");
  EXPECT_EQ(without->calibration->parameters[profile::kHostLaunch],
            h200.calibration->parameters[profile::kHostLaunch])
      << "the host is not the GPU";
  // The A100 has none in 16 bits; those of the RTX 3090 are left out when that is predicted.
  profile::GpuSpec like = start_;
  like.half = gpu_.calibration;
  const auto find_with_half = [&](std::string_view name) -> Result<profile::GpuSpec> {
    return name == "A100-SXM4-40GB" ? like : load(std::string(name));
  };
  const auto plain = without_own_steps(gpu_, find_with_half);
  ASSERT_TRUE(plain && plain->half);
  EXPECT_EQ(plain->half->gpu, "H200-SXM-141GB");
}

}  // namespace
}  // namespace gpemu::calibrate
