// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

namespace {

TEST(CApiCost, AnswersFromTheProfiles) {
  gpemu_cost_model* model = nullptr;
  ASSERT_EQ(gpemu_cost_model_create("resnet50", "V100-PCIE-32GB", nullptr, &model), GPEMU_OK)
      << gpemu_last_error();
  gpemu_step_cost cost{.struct_size = sizeof cost};
  ASSERT_EQ(gpemu_cost_model_step(model, 64, &cost), GPEMU_OK);
  // GPEmu's table for ResNet-50 at batch 64 on a V100: 61.16 ms forward, 145.12 ms backward.
  const int64_t step_ns = cost.forward.time_ns + cost.backward_optimizer.time_ns;
  EXPECT_NEAR(static_cast<double>(step_ns), 206.28e6, 0.02 * 206.28e6);
  EXPECT_LE(cost.forward.evidence, GPEMU_EVIDENCE_INTERPOLATED);
  EXPECT_GT(cost.peak_bytes, cost.persistent_bytes);

  int32_t largest = 0;
  ASSERT_EQ(gpemu_cost_model_largest_batch(model, &largest), GPEMU_OK);
  EXPECT_EQ(gpemu_cost_model_step(model, largest, &cost), GPEMU_OK);
  EXPECT_EQ(gpemu_cost_model_step(model, largest + 1, &cost), GPEMU_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(gpemu_cost_model_step(model, 0, &cost), GPEMU_ERROR_INVALID_ARGUMENT);
  gpemu_cost_model_destroy(model);
}

}  // namespace
