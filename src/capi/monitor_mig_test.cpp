// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"
#include "gpemu/monitor.h"

namespace {

/// The monitor watches a node of one A100, which MIG divides if that is its parameter.
class CApiMonitorMig : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("gpemu_capi_mig_" + std::to_string(::getpid()));
    ASSERT_EQ(::setenv("GPEMU_NODE_DIR", folder_.c_str(), 1), 0);
    const gpemu_node_config config{.struct_size = sizeof config,
                                   .name = "n",
                                   .gpu = "A100-SXM4-40GB",
                                   .device_count = 1,
                                   .mig = GetParam()};
    ASSERT_EQ(gpemu_node_create(&config, &node_), GPEMU_OK) << gpemu_last_error();
    ASSERT_EQ(gpemu_monitor_attach(), GPEMU_OK) << gpemu_last_error();
  }
  void TearDown() override {
    EXPECT_EQ(gpemu_monitor_detach(), GPEMU_OK);
    gpemu_node_close(node_);
    std::filesystem::remove_all(folder_);
    ::unsetenv("GPEMU_NODE_DIR");
  }

  std::filesystem::path folder_;
  gpemu_node* node_ = nullptr;
};
using CApiMonitorWithoutMig = CApiMonitorMig;
INSTANTIATE_TEST_SUITE_P(Divided, CApiMonitorMig, testing::Values(1));
INSTANTIATE_TEST_SUITE_P(Whole, CApiMonitorWithoutMig, testing::Values(0));

TEST_P(CApiMonitorWithoutMig, KnowsTheProfiles) {
  gpemu_monitor_mig_profile profile{.struct_size = sizeof profile};
  ASSERT_EQ(gpemu_monitor_get_mig_profile(0, 4, &profile), GPEMU_OK) << gpemu_last_error();
  EXPECT_STREQ(profile.name, "3g.20gb");
  EXPECT_EQ(profile.id, 9);
  EXPECT_EQ(profile.multiprocessors, 42);
  EXPECT_EQ(profile.memory_bytes, 19968ULL << 20);
  EXPECT_EQ(profile.start_count, 2);
  EXPECT_EQ(profile.starts[1], 4);
  EXPECT_EQ(profile.free_count, 2);
  EXPECT_EQ(gpemu_monitor_get_mig_profile(0, 7, &profile), GPEMU_ERROR_NOT_FOUND);
  gpemu_monitor_device device{.struct_size = sizeof device};
  ASSERT_EQ(gpemu_monitor_get_device(0, &device), GPEMU_OK);
  EXPECT_EQ(device.mig, 0);
}

TEST_P(CApiMonitorWithoutMig, HasNoInstancesWithoutMig) {
  gpemu_monitor_mig_instance instance{.struct_size = sizeof instance};
  EXPECT_EQ(gpemu_monitor_get_mig_instance(0, 0, &instance), GPEMU_ERROR_NOT_FOUND);
  gpemu_monitor_mig_compute_profile compute{.struct_size = sizeof compute};
  EXPECT_EQ(gpemu_monitor_get_mig_compute_profile(0, 1, 0, &compute), GPEMU_ERROR_NOT_FOUND);
  gpemu_monitor_mig_device device{.struct_size = sizeof device};
  EXPECT_EQ(gpemu_monitor_get_mig_device(0, 0, &device), GPEMU_ERROR_NOT_FOUND);
  const gpemu_monitor_mig_change change{
      .struct_size = sizeof change, .action = GPEMU_MONITOR_MIG_CREATE, .profile = 9, .start = -1};
  int32_t id = -1;
  EXPECT_EQ(gpemu_monitor_change_mig(0, &change, &id), GPEMU_ERROR_UNSUPPORTED);
  EXPECT_EQ(gpemu_monitor_set_mig_mode(0, 1), GPEMU_ERROR_UNSUPPORTED);
}

TEST_P(CApiMonitorMig, MakesShowsAndDestroysInstances) {
  gpemu_monitor_mig_change change{
      .struct_size = sizeof change, .action = GPEMU_MONITOR_MIG_CREATE, .profile = 9, .start = -1};
  int32_t id = -1;
  ASSERT_EQ(gpemu_monitor_change_mig(0, &change, &id), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(id, 2);
  gpemu_monitor_mig_instance instance{.struct_size = sizeof instance};
  ASSERT_EQ(gpemu_monitor_get_mig_instance(0, 0, &instance), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(instance.start, 4);
  EXPECT_EQ(instance.size, 4);
  gpemu_monitor_mig_compute_profile compute{.struct_size = sizeof compute};
  ASSERT_EQ(gpemu_monitor_get_mig_compute_profile(0, 2, 2, &compute), GPEMU_OK)
      << gpemu_last_error();
  EXPECT_STREQ(compute.name, "3g.20gb");
  change = {.struct_size = sizeof change,
            .action = GPEMU_MONITOR_MIG_CREATE_COMPUTE,
            .gpu_instance = 2,
            .profile = compute.id,
            .start = -1};
  ASSERT_EQ(gpemu_monitor_change_mig(0, &change, &id), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(gpemu_monitor_change_mig(0, &change, &id), GPEMU_ERROR_RESOURCE_LIMIT);
  gpemu_monitor_mig_device device{.struct_size = sizeof device};
  ASSERT_EQ(gpemu_monitor_get_mig_device(0, 0, &device), GPEMU_OK) << gpemu_last_error();
  EXPECT_STREQ(device.name, "3g.20gb");
  EXPECT_EQ(device.multiprocessors, 42);
  EXPECT_EQ(device.memory_total, 19968ULL << 20);
  EXPECT_EQ(device.memory_used, 0U);
  change.action = GPEMU_MONITOR_MIG_DESTROY;
  EXPECT_EQ(gpemu_monitor_change_mig(0, &change, &id), GPEMU_ERROR_NOT_READY);
  change.action = GPEMU_MONITOR_MIG_DESTROY_COMPUTE;
  EXPECT_EQ(gpemu_monitor_change_mig(0, &change, &id), GPEMU_OK) << gpemu_last_error();
  change.action = GPEMU_MONITOR_MIG_DESTROY;
  EXPECT_EQ(gpemu_monitor_change_mig(0, &change, &id), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(gpemu_monitor_get_mig_instance(0, 0, &instance), GPEMU_ERROR_NOT_FOUND);
}

TEST_P(CApiMonitorMig, SwitchesItOffAndOn) {
  gpemu_monitor_device gpu{.struct_size = sizeof gpu};
  for (const int32_t mode : {0, 1}) {
    EXPECT_EQ(gpemu_monitor_set_mig_mode(0, mode), GPEMU_OK) << gpemu_last_error();
    ASSERT_EQ(gpemu_monitor_get_device(0, &gpu), GPEMU_OK);
    EXPECT_EQ(gpu.mig, mode);
    EXPECT_EQ(gpu.mig_pending, mode);
  }
  EXPECT_EQ(gpemu_monitor_set_mig_mode(0, 2), GPEMU_ERROR_INVALID_ARGUMENT);
}

}  // namespace
