// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/bars.hpp"

#include <cmath>
#include <utility>

#include <gtest/gtest.h>

namespace gpemu::calibrate {
namespace {

TEST(Bars, AStepMissesByTheFactorBetweenWhatWasMeasuredAndPredicted) {
  PredictedStep step;
  step.measured_seconds = {1, 2};
  step.predicted_seconds = {2, 2};
  EXPECT_NEAR(step.miss(), 1.0 / 3, 1e-12);
  EXPECT_NEAR(step.error(), 1.0 / 3, 1e-12);
  std::swap(step.measured_seconds, step.predicted_seconds);
  EXPECT_NEAR(step.miss(), 1.0 / 3, 1e-12);
  EXPECT_NEAR(step.error(), -0.25, 1e-12);
}

/// Two families, "a" and "b", of two GPUs and an old one; by what share each is predicted too low.
class CrossedBars : public testing::Test {
 protected:
  CrossedBars() {
    recorded_.models = {"a1", "b1"};
    for (const int major : {7, 8, 3}) {
      gpus_.emplace_back().spec.generation.informs_other_gpus = major > 3;
    }
    for (int gpu = 0; gpu < 3; ++gpu) {
      for (int model = 0; model < 2; ++model) {
        for (int batch = 1; batch <= 10; ++batch) {
          PredictedStep step{.gpu = gpu, .model = model, .batch = batch};
          step.measured_seconds = {1 + 0.01 * (10 * gpu + 5 * model), 0};
          step.predicted_seconds = {1, 0};
          steps_.push_back(step);
        }
      }
    }
  }

  [[nodiscard]] double bar(Protocol protocol, int gpu, int model) const {
    return crossed_bars(recorded_, gpus_, steps_, protocol)[20 * gpu + 10 * model];
  }

  JoinedRecordings recorded_;
  std::vector<CalibratedGpu> gpus_;
  std::vector<PredictedStep> steps_;
};

TEST_F(CrossedBars, AFamilysBarIsThatOfTheOthersOnItsGpu) {
  EXPECT_NEAR(bar(Protocol::kFamilyOut, 1, 0), 0.15, 1e-12);
  EXPECT_NEAR(bar(Protocol::kFamilyOut, 1, 1), 0.10, 1e-12);
  EXPECT_NEAR(bar(Protocol::kOneBatch, 2, 1), 0.20, 1e-12);
}

TEST_F(CrossedBars, AGpusBarIsThatOfTheOthersOfItsTime) {
  EXPECT_NEAR(bar(Protocol::kGpuOut, 0, 0), 0.15, 1e-12);  // Not 0.25, of the old one.
  EXPECT_NEAR(bar(Protocol::kGpuOut, 1, 1), 0.05, 1e-12);
  EXPECT_NEAR(bar(Protocol::kGpuOut, 2, 0), 0.15, 1e-12);
}

TEST_F(CrossedBars, StatedBarsRestOnAllThatIsLikeThem) {
  EXPECT_NEAR(stated_bar(gpus_, steps_, Protocol::kFamilyOut, 2), 0.25, 1e-12);
  EXPECT_NEAR(stated_bar(gpus_, steps_, Protocol::kGpuOut, 0), 0.15, 1e-12);
}

}  // namespace
}  // namespace gpemu::calibrate
