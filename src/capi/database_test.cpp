// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

namespace {

TEST(CApiDatabase, FindsGpusAndModels) {
  gpemu_database* database = nullptr;
  ASSERT_EQ(gpemu_database_open(nullptr, &database), GPEMU_OK) << gpemu_last_error();
  gpemu_gpu_info gpu{.struct_size = sizeof gpu};
  ASSERT_EQ(gpemu_database_find_gpu(database, "Tesla_V100-PCIE-32GB", &gpu), GPEMU_OK);
  EXPECT_STREQ(gpu.name, "V100-PCIE-32GB") << "an alias yields gpemu's own name";
  EXPECT_EQ(gpu.compute_capability_major, 7);
  EXPECT_EQ(gpemu_database_find_gpu(database, "V1000", &gpu), GPEMU_ERROR_NOT_FOUND);

  int32_t count = 0;
  ASSERT_EQ(gpemu_database_gpu_count(database, &count), GPEMU_OK);
  ASSERT_GT(count, 0);
  EXPECT_EQ(gpemu_database_gpu(database, count - 1, &gpu), GPEMU_OK);
  EXPECT_EQ(gpemu_database_gpu(database, count, &gpu), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(gpemu_database_gpu(database, -1, &gpu), GPEMU_ERROR_NOT_FOUND);

  gpemu_model_info model{.struct_size = sizeof model};
  ASSERT_EQ(gpemu_database_find_model(database, "resnet50", &model), GPEMU_OK);
  EXPECT_EQ(model.input_shape[0], 3);
  ASSERT_EQ(gpemu_database_model_count(database, &count), GPEMU_OK);
  EXPECT_EQ(gpemu_database_model(database, count, &model), GPEMU_ERROR_NOT_FOUND);
  EXPECT_STREQ(model.name, "resnet50") << "untouched on failure";
  gpemu_database_close(database);
}

TEST(CApiDatabase, CostModelsOutliveIt) {
  gpemu_database* database = nullptr;
  ASSERT_EQ(gpemu_database_open(nullptr, &database), GPEMU_OK) << gpemu_last_error();
  gpemu_cost_model* cost_model = nullptr;
  ASSERT_EQ(gpemu_database_cost_model(database, "resnet18", "Tesla_M40", nullptr, &cost_model),
            GPEMU_OK)
      << gpemu_last_error();
  gpemu_database_close(database);
  gpemu_step_cost cost{.struct_size = sizeof cost};
  ASSERT_EQ(gpemu_cost_model_step(cost_model, 64, &cost), GPEMU_OK);
  EXPECT_GT(cost.backward_optimizer.time_ns, cost.forward.time_ns);
  gpemu_cost_model_destroy(cost_model);
}

TEST(CApiDatabase, RefusesAFileThatIsNotThere) {
  gpemu_database* database = nullptr;
  EXPECT_EQ(gpemu_database_open("/nonexistent/profiles.db", &database), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(database, nullptr);
}

}  // namespace
