// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <numeric>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/step/step_cost.hpp"

#include "test_evidence.hpp"

namespace gpemu::step {
namespace {

StepEvidence evidence_with_recording(const std::string& model, std::uint64_t parameters) {
  StepEvidence known = evidence_for_test();
  known.model.parameters = parameters;
  const auto file =
      std::filesystem::path(GPEMU_PACKS_FOLDER) / "gpemu-vldb25" / "operations" / (model + ".json");
  known.recording = parse_recording(read_file(file).value(), model).value();
  known.gpu =
      profile::load_gpu_spec(std::filesystem::path(GPEMU_GPUS_FOLDER) / "P100-PCIE-16GB.toml")
          .value();
  return known;
}

TEST(StepParts, HaveTheGradientsOfAllParametersInTheOrderOfTheBackwardPass) {
  const auto model = StepCostModel::from_evidence(evidence_with_recording("alexnet", 61100840));
  ASSERT_TRUE(model) << model.error().message;
  const auto parts = model->parts(16);
  ASSERT_TRUE(parts) << parts.error().message;
  ASSERT_EQ(parts->gradients.size(), 16U);
  // The last layer's bias and weights come first, the first layer's last.
  EXPECT_EQ(parts->gradients[0].bytes + parts->gradients[1].bytes, 4U * (1000 + 4096 * 1000));
  EXPECT_EQ(parts->gradients[14].bytes + parts->gradients[15].bytes, 4U * (64 + 64 * 3 * 11 * 11));
  EXPECT_TRUE(std::ranges::is_sorted(parts->gradients, {}, &Gradient::ready));
  Bytes all = 0;
  for (const Gradient& gradient : parts->gradients) all += gradient.bytes;
  EXPECT_EQ(all, 4U * 61100840);
  const Duration whole = model->step(16)->backward_optimizer.time;
  EXPECT_EQ(parts->gradients.back().ready + parts->optimizer, whole);
  EXPECT_GT(parts->optimizer, whole / 50);
  EXPECT_LT(parts->optimizer, whole / 2);
  EXPECT_EQ(parts->head_gradients, 6U);
  EXPECT_EQ(parts->head_input_bytes, 4U * 9216);
  EXPECT_EQ(parts->output_bytes, 4000U);
}

TEST(StepParts, PriceTheHeadAtAnyBatch) {
  const auto model = StepCostModel::from_evidence(evidence_with_recording("alexnet", 61100840));
  ASSERT_TRUE(model) << model.error().message;
  const auto small = model->head(1024), large = model->head(4096);
  ASSERT_TRUE(small && large);
  EXPECT_NEAR(to_seconds(large->forward) / to_seconds(small->forward), 4, 0.4);
  EXPECT_NEAR(to_seconds(large->backward) / to_seconds(small->backward), 4, 0.4);
  // 58.6 million products per sample forward, and twice as many backward.
  const double flops = 2 * 58.6e6 * 4096;
  EXPECT_GT(to_seconds(large->forward), flops / 9.3e12);
  EXPECT_LT(to_seconds(large->forward), 3 * flops / 9.3e12);
  // At a better rate: on Pascal, sums along both operands of a forward pass are slow.
  EXPECT_GT(large->backward, large->forward);
  EXPECT_LT(large->backward, 2 * large->forward);
}

TEST(StepParts, NeedARecordingOfTheSameParameters) {
  const auto other = StepCostModel::from_evidence(evidence_with_recording("alexnet", 61100841));
  ASSERT_TRUE(other);
  EXPECT_EQ(other->parts(16).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(other->parts(16).error().message,
            "the recorded backward pass does not show the gradients of 61100841 parameters");
  const auto none = StepCostModel::from_evidence(evidence_for_test());
  EXPECT_EQ(none->parts(16).error().message,
            "the operations of toynet are not recorded, so it is not known when its gradients "
            "exist; `gpemu cost condense` records a model");
  EXPECT_EQ(none->head(16).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(none->parts(0).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpemu::step
