// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/published.hpp"

#include <array>
#include <cmath>
#include <utility>

#include <gtest/gtest.h>

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
  void SetUp() override {
    auto read = cost::read_published_steps(GPEMU_PUBLISHED_FOLDER "/operations");
    ASSERT_TRUE(read) << read.error().message;
    steps_ = *std::move(read);
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

  static bool held_out(const cost::PublishedStep& step) {
    return is_held_out(published_family(step.model));
  }

  std::vector<cost::PublishedStep> steps_;
  profile::GpuSpec gpu_, start_;
};

TEST_F(PublishedData, HeldOutTrainingStepsArePredictedWithinTheirBars) {
  double errors = 0, within = 0, count = 0;
  for (const cost::PublishedStep& step : steps_) {
    if (!step.training || step.source != "timm" || !held_out(step)) continue;
    PublishedAnswer answer = predict_published(step, gpu_);
    answer.measured_seconds = step.seconds.front().second;
    errors += std::abs(answer.error());
    within += answer.miss() <= answer.bar ? 1 : 0;
    ++count;
  }
  ASSERT_GT(count, 90);
  EXPECT_LT(errors / count, 0.1);
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

}  // namespace
}  // namespace gpemu::calibrate
