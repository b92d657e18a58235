// SPDX-License-Identifier: Apache-2.0
#include "cost/cost_eval_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace gpemu::tools {
namespace {

using calibrate::PredictedStep;
using calibrate::Protocol;

/// Ten steps on a new and two on an old GPU. On the new one, step i is predicted i % too slow: its
/// forward pass by 4 i %, and the backward pass, three quarters of the time, exactly.
class EvaluatedStepsTest : public testing::Test {
 protected:
  EvaluatedStepsTest() {
    recorded_.models = {"a1", "a2", "b1"};
    gpus_.resize(2);
    gpus_[0].spec.name = "new";
    gpus_[0].spec.generation.informs_other_gpus = true;
    gpus_[1].spec.name = "old";
    for (int i = 0; i < 10; ++i) add(0, i < 5 ? 0 : 1, 1 << i, 1 + 0.04 * i);
    add(1, 2, 1, 0.2);
    add(1, 2, 2, 0.64);
  }

  void add(int gpu, int model, int batch, double forward) {
    PredictedStep step{.gpu = gpu, .model = model, .batch = batch};
    step.measured_seconds = {1, 3};
    step.predicted_seconds = {forward, 3};
    steps_.push_back(step);
  }

  /// The steps with the same bar for all of a GPU's.
  [[nodiscard]] EvaluatedSteps evaluated(double bar_of_new, double bar_of_old,
                                         Protocol protocol = Protocol::kFamilyOut) const {
    std::vector<double> bars(10, bar_of_new);
    bars.resize(12, bar_of_old);
    return {.recorded = recorded_,
            .gpus = gpus_,
            .protocol = protocol,
            .steps = steps_,
            .bars = std::move(bars)};
  }

  [[nodiscard]] std::vector<std::string> groups(const std::string& by) const {
    std::vector<std::string> names;
    for (const GroupErrors& group : errors_by(evaluated(1, 1), by)) names.push_back(group.name);
    return names;
  }

  calibrate::JoinedRecordings recorded_;
  std::vector<calibrate::CalibratedGpu> gpus_;
  std::vector<PredictedStep> steps_;
};

TEST_F(EvaluatedStepsTest, GroupsByGpuFamilyModelAndBatch) {
  EXPECT_EQ(groups("gpu"), (std::vector<std::string>{"new", "old"}));
  EXPECT_EQ(groups("family"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(groups("model"), (std::vector<std::string>{"a1", "a2", "b1"}));
  EXPECT_EQ(groups("batch"), (std::vector<std::string>{"  1", "  2", "  4", "  8", " 16", " 32",
                                                       " 64", "128", "256", "512"}));
}

TEST_F(EvaluatedStepsTest, SumsUpTheErrorsOfAGroup) {
  const std::vector<GroupErrors> groups = errors_by(evaluated(0.085, 0.5), "gpu");
  ASSERT_EQ(groups.size(), 2U);
  const GroupErrors& of_new = groups[0];
  EXPECT_EQ(of_new.steps, 10U);
  EXPECT_NEAR(of_new.mean, 0.045, 1e-12);
  EXPECT_NEAR(of_new.median, 0.05, 1e-12);
  EXPECT_NEAR(of_new.p90, 0.08, 1e-12);
  EXPECT_NEAR(of_new.worst, 0.09, 1e-12);
  EXPECT_NEAR(of_new.bias, 0.045, 1e-12);
  EXPECT_NEAR(of_new.forward, 0.18, 1e-12);
  EXPECT_NEAR(of_new.backward, 0, 1e-12);
  EXPECT_NEAR(of_new.bar, 0.085, 1e-12);
  EXPECT_NEAR(of_new.within, 0.9, 1e-12);
  const GroupErrors& of_old = groups[1];
  EXPECT_NEAR(of_old.mean, 0.145, 1e-12);
  EXPECT_NEAR(of_old.bias, -0.145, 1e-12) << "predicted too fast";
  EXPECT_NEAR(of_old.within, 1, 1e-12);
}

TEST_F(EvaluatedStepsTest, ABarIsRightIfItContainsNineOfTenSteps) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(wrong_bars(evaluated(0.085, 0.5)), Names{"old"}) << "nine of ten, and two of two";
  EXPECT_EQ(wrong_bars(evaluated(0.095, 0.5)), (Names{"new", "old"})) << "ten of ten";
  EXPECT_EQ(wrong_bars(evaluated(0.075, 0.2)), (Names{"new", "old"})) << "eight, and one of two";
  EXPECT_EQ(wrong_bars(evaluated(0.095, 0.5, Protocol::kGpuOut)), Names{"new"})
      << "no transferred bar is stated for the old one";
}

TEST_F(EvaluatedStepsTest, TheTextEndsWithTheMeanAndTheFaults) {
  EXPECT_TRUE(evaluation_text(evaluated(0.085, 0.5), "family", {})
                  .ends_with("mean of the families: 9.5 %\n\nbars that contain less than 85 % or "
                             "more than 95 % of a GPU's steps: old\n"));
  EXPECT_TRUE(evaluation_text(evaluated(0.085, 0.5, Protocol::kGpuOut), "batch", {})
                  .ends_with("bars that contain less than 85 % or more than 95 % of a GPU's steps: "
                             "none\n"));
}

TEST_F(EvaluatedStepsTest, JsonHasEachStep) {
  const nlohmann::json rows = evaluation_json(evaluated(0.085, 0.5));
  ASSERT_EQ(rows.size(), 12U);
  EXPECT_EQ(rows[10]["gpu"], "old");
  EXPECT_EQ(rows[10]["model"], "b1");
  EXPECT_EQ(rows[10]["batch"], 1);
  EXPECT_EQ(rows[10]["measured_ms"]["backward"], 3000);
  EXPECT_EQ(rows[10]["predicted_ms"]["forward"], 200);
  EXPECT_NEAR(rows[10]["error"].get<double>(), -0.2, 1e-12);
  EXPECT_EQ(rows[10]["bar"], 0.5);
}

TEST_F(EvaluatedStepsTest, AProtocolSetsItsOwnBar) {
  std::vector<profile::CalibrationBars> bars(2);
  const profile::CalibrationBars unset;
  set_bars(gpus_, steps_, Protocol::kInSample, bars);
  EXPECT_EQ(bars[0].unseen_model, unset.unseen_model);
  set_bars(gpus_, steps_, Protocol::kFamilyOut, bars);
  EXPECT_NEAR(bars[0].unseen_model, 0.09, 1e-12) << "the largest of ten";
  EXPECT_EQ(bars[0].other_gpu, unset.other_gpu);
  EXPECT_EQ(bars[0].known_batch, unset.known_batch);
  set_bars(gpus_, steps_, Protocol::kGpuOut, bars);
  EXPECT_NEAR(bars[1].other_gpu, 0.09, 1e-12) << "of the GPUs for which one is stated";
  set_bars(gpus_, steps_, Protocol::kOneBatch, bars);
  EXPECT_NEAR(bars[0].known_batch, 0.09, 1e-12);
}

}  // namespace
}  // namespace gpemu::tools
