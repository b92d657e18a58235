// SPDX-License-Identifier: Apache-2.0
#include "gpemu/predict/steps.hpp"

#include <string>

#include <gtest/gtest.h>

#include "gpemu/kernels/described_operation.hpp"

#include "test_work.hpp"

namespace gpemu::predict {
namespace {

using Kind = record::WorkEvent::Kind;
constexpr StepSearch kRunning{.pattern = nullptr, .complete = false};

/// Returns the steps as the letters of their operations, with a slash between steps.
std::string steps_of(const record::ProgramWork& work, const StepSearch& search = {}) {
  const auto found = find_steps(work, search);
  if (!found) return found.error().code == ErrorCode::kNotFound ? "none" : "wrong";
  std::string text;
  for (const StepRange& step : found->steps) {
    if (!text.empty()) text += '/';
    for (std::size_t i = step.begin; i < step.end; ++i) {
      const record::WorkEvent& event = work.events[i];
      if (event.kind == Kind::kOperation) text += work.operations[event.index].name;
    }
  }
  return text;
}

TEST(FindSteps, ByRangesThatAreCalledAfterSteps) {
  WorkForTest test;
  test.add_all("e").range("warm-up").add_all("e");
  for (int i = 0; i < 3; ++i) {
    test.range("data " + std::to_string(i)).range("Step " + std::to_string(i)).add_all("el");
  }
  EXPECT_EQ(steps_of(test.work), "el/el");
  EXPECT_EQ(find_steps(test.work, {})->sign, StepSign::kRanges);
}

TEST(FindSteps, NotByRangesOfTheWholeTraining) {
  WorkForTest test;
  test.range("train setup").add_all("e").range("train").add_all("e");
  for (int i = 0; i < 4; ++i) test.range("batch " + std::to_string(i)).add_all("el");
  EXPECT_EQ(steps_of(test.work), "el/el/el");
}

TEST(FindSteps, ByNoRangesOfOperators) {
  WorkForTest test;
  for (int i = 0; i < 3; ++i) {
    test.range("aten::batch_norm").add_all("l").range("Optimizer.step#SGD.step").add_all("o");
  }
  EXPECT_EQ(steps_of(test.work), "lo/lo");
  EXPECT_EQ(find_steps(test.work, {})->sign, StepSign::kOptimizer);
}

TEST(FindSteps, BehindTheOptimizersWork) {
  WorkForTest test;
  test.add_all("elleooelleooelleoo");
  EXPECT_EQ(steps_of(test.work), "elleoo/elleoo");
}

TEST(FindSteps, NotByKernelsThatClearGradients) {
  // Forward, gradients to zero, backward, optimizer.
  WorkForTest test;
  test.add_all("lloll");
  for (int i = 0; i < 4; ++i) test.add_all("opp").add_all("lloll");
  test.add_all("opp");
  EXPECT_EQ(steps_of(test.work), "llollopp/llollopp/llollopp/llollopp");
}

TEST(FindSteps, OfNetworksThatTrainInTurns) {
  WorkForTest test;
  for (int i = 0; i < 4; ++i) test.add_all("looomp");
  EXPECT_EQ(steps_of(test.work), "mplooo/mplooo/mplooo");
}

TEST(FindSteps, ThatAccumulateGradients) {
  WorkForTest test;
  for (int i = 0; i < 4; ++i) test.add_all("lelelelo");
  EXPECT_EQ(steps_of(test.work), "lelelelo/lelelelo/lelelelo");
}

TEST(FindSteps, WhoseShapesDiffer) {
  WorkForTest test;
  for (const char* const step : {"lo", "leo", "leeo", "leeeo", "lo"}) test.add_all(step);
  EXPECT_EQ(steps_of(test.work), "leo/leeo/leeeo/lo");
}

TEST(FindSteps, OnlyWholeOnesWhileTheProgramRuns) {
  WorkForTest test;
  test.add_all("loloooloo").add_all("loo");
  // One more kernel of the last optimizer may come.
  EXPECT_EQ(steps_of(test.work, kRunning), "none");
  test.add_all("l");
  EXPECT_EQ(steps_of(test.work, kRunning), "none");
  test.add_all("ool");
  EXPECT_EQ(steps_of(test.work, kRunning), "loo/loo");
}

TEST(FindSteps, ByWhatRecurs) {
  WorkForTest test;
  test.add_all("eeelmlm");
  for (int i = 0; i < 3; ++i) test.add_all("lmmlmmlmme");
  test.add_all("ml");  // An evaluation.
  const std::string steps = steps_of(test.work);
  EXPECT_EQ(steps, "lmmlmmlmme/lmmlmmlmme");
  EXPECT_EQ(find_steps(test.work, {})->sign, StepSign::kSequence);
}

TEST(FindSteps, NotByLayersOfASingleStep) {
  WorkForTest test;
  test.add_all("elmelmelmelmelmelmo");
  EXPECT_EQ(steps_of(test.work), "none");
}

TEST(FindSteps, NotByLayersThatRecurWhileTheProgramRuns) {
  WorkForTest test;
  for (int i = 0; i < 1000; ++i) test.add_all("lme");
  EXPECT_EQ(steps_of(test.work, kRunning), "none");
  for (int i = 0; i < 7000; ++i) test.add_all("lme");
  EXPECT_NE(steps_of(test.work, kRunning), "none");
}

TEST(FindSteps, ByAPattern) {
  WorkForTest test;
  test.add_all("emmelemmele");
  const NamePattern pattern = NamePattern::read("^m$").value();
  EXPECT_EQ(steps_of(test.work, {.pattern = &pattern}), "mmele");
  const NamePattern once = NamePattern::read("^x$").value();
  const auto found = find_steps(test.work, {.pattern = &once});
  ASSERT_FALSE(found);
  EXPECT_TRUE(found.error().message.contains("matches 0 operations")) << found.error().message;
}

TEST(FindSteps, ByAPatternForRanges) {
  WorkForTest test;
  for (int i = 0; i < 3; ++i) test.range("epoch 1, part " + std::to_string(i)).add_all("el");
  const NamePattern pattern = NamePattern::read("part [0-9]").value();
  EXPECT_EQ(steps_of(test.work, {.pattern = &pattern}), "el/el");
}

TEST(FindSteps, BehindTheStartOfTheProfiler) {
  WorkForTest test;
  test.add_all("lolo").mark(Kind::kProfilerStarts).add_all("leoleoleo");
  EXPECT_EQ(steps_of(test.work), "leo/leo");
}

TEST(FindSteps, RefusesWhatHasNone) {
  EXPECT_EQ(steps_of({}), "none");
  WorkForTest test;
  test.add_all("elme");
  const auto found = find_steps(test.work, {});
  ASSERT_FALSE(found);
  EXPECT_TRUE(found.error().message.contains("no training steps found in 4 operations"));
}

TEST(TypicalStep, IsTheMedianBehindTheWarmUp) {
  WorkForTest test;
  for (const int ns : {9000, 8000, 30, 10, 20, 1, 1}) {
    test.range("step").add("l" + std::to_string(ns), kernels::OperationClass::kConvolution, ns);
  }
  const auto found = find_steps(test.work, {});
  const auto time = [&](int count) {
    const StepRange step = typical_step(test.work, *found, count);
    return test.work.events[step.begin + 1].duration.count();
  };
  EXPECT_EQ(time(3), 20);
  EXPECT_EQ(time(1), 30);
  EXPECT_EQ(time(2), 10);  // Of two the shorter.
}

TEST(TypicalStep, IsTheLastWhereAllAreWarmUp) {
  WorkForTest test;
  for (int i = 0; i < 3; ++i) test.range("step").add_all("l");
  const auto found = find_steps(test.work, {});
  ASSERT_EQ(found->steps.size(), 2u);
  EXPECT_EQ(typical_step(test.work, *found, 5).begin, found->steps[1].begin);
}

}  // namespace
}  // namespace gpemu::predict
