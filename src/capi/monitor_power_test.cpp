// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"
#include "gpemu/monitor.h"

namespace {

/// The monitor watches a node of one A100, whose limit is 400 W and whose idle power is 50 W.
class CApiMonitorPower : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("gpemu_capi_power_" + std::to_string(::getpid()));
    ASSERT_EQ(::setenv("GPEMU_NODE_DIR", folder_.c_str(), 1), 0);
    const gpemu_node_config config{
        .struct_size = sizeof config, .name = "n", .gpu = "A100-SXM4-40GB", .device_count = 1};
    ASSERT_EQ(gpemu_node_create(&config, &node_), GPEMU_OK) << gpemu_last_error();
    ASSERT_EQ(gpemu_monitor_attach(), GPEMU_OK) << gpemu_last_error();
  }
  void TearDown() override {
    EXPECT_EQ(gpemu_monitor_detach(), GPEMU_OK);
    gpemu_node_close(node_);
    std::filesystem::remove_all(folder_);
    ::unsetenv("GPEMU_NODE_DIR");
  }
  static gpemu_monitor_power power() {
    gpemu_monitor_power power{.struct_size = sizeof power};
    EXPECT_EQ(gpemu_monitor_get_power(0, &power), GPEMU_OK) << gpemu_last_error();
    return power;
  }

  std::filesystem::path folder_;
  gpemu_node* node_ = nullptr;
};

TEST_F(CApiMonitorPower, ChangesTheComputeMode) {
  ASSERT_EQ(gpemu_monitor_set_compute_mode(0, 3), GPEMU_OK) << gpemu_last_error();
  gpemu_monitor_device device{.struct_size = sizeof device};
  ASSERT_EQ(gpemu_monitor_get_device(0, &device), GPEMU_OK);
  EXPECT_EQ(device.compute_mode, 3);
  EXPECT_EQ(gpemu_monitor_set_compute_mode(0, 1), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_monitor_set_compute_mode(1, 0), GPEMU_ERROR_NOT_FOUND);
}

TEST_F(CApiMonitorPower, LimitsThePower) {
  EXPECT_EQ(power().limit_w, 400);
  EXPECT_EQ(power().min_limit_w, 94);
  EXPECT_EQ(power().max_limit_w, 400);
  EXPECT_EQ(power().clock_share, 1);
  ASSERT_EQ(gpemu_monitor_set_power_limit(0, 225), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(power().limit_w, 225);
  EXPECT_EQ(power().default_limit_w, 400);
  EXPECT_EQ(power().clock_share, std::cbrt(0.5));
  EXPECT_EQ(power().capped, 1);
  EXPECT_EQ(gpemu_monitor_set_power_limit(0, 401), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_monitor_set_power_limit(1, 225), GPEMU_ERROR_NOT_FOUND);
  ASSERT_EQ(gpemu_monitor_set_power_limit(0, 0), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(power().limit_w, 400);
}

TEST_F(CApiMonitorPower, LocksTheClock) {
  ASSERT_EQ(gpemu_monitor_lock_clock(0, 705), GPEMU_OK) << gpemu_last_error();
  EXPECT_EQ(power().locked_clock_mhz, 705);
  EXPECT_EQ(power().clock_share, 0.5);
  EXPECT_EQ(power().capped, 0);
  EXPECT_EQ(gpemu_monitor_lock_clock(0, -1), GPEMU_ERROR_INVALID_ARGUMENT);
}

TEST_F(CApiMonitorPower, LinksThatTheDeviceHasCountTheirTraffic) {
  uint64_t sent = 7, received = 7;
  EXPECT_EQ(gpemu_monitor_get_link_traffic(0, 11, &sent, &received), GPEMU_OK);
  EXPECT_EQ(sent + received, 0U);
  EXPECT_EQ(gpemu_monitor_get_link_traffic(0, 12, &sent, &received), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(gpemu_monitor_get_link_traffic(0, -2, &sent, &received), GPEMU_ERROR_NOT_FOUND);
  EXPECT_EQ(gpemu_monitor_get_link_traffic(0, 0, nullptr, &received), GPEMU_ERROR_INVALID_ARGUMENT);
}

TEST_F(CApiMonitorPower, ALimitIsAllTheMemoryThatAProcessSees) {
  ASSERT_EQ(gpemu_monitor_detach(), GPEMU_OK);
  ASSERT_EQ(::setenv("GPEMU_GPU_FRACTION", "0.5", 1), 0);
  ASSERT_EQ(gpemu_monitor_attach(), GPEMU_OK) << gpemu_last_error();
  gpemu_device* device = nullptr;
  ASSERT_EQ(gpemu_device_open(node_, 0, &device), GPEMU_OK);
  uint64_t address = 0;
  ASSERT_EQ(gpemu_device_allocate(device, 1 << 20, &address), GPEMU_OK);
  gpemu_monitor_state state{.struct_size = sizeof state};
  EXPECT_EQ(gpemu_monitor_get_state(0, &state), GPEMU_OK);
  EXPECT_EQ(state.memory_total, (40339ULL << 20) / 2);
  EXPECT_EQ(state.memory_used, 1U << 20);
  gpemu_device_close(device);
  ASSERT_EQ(gpemu_monitor_detach(), GPEMU_OK);
  ASSERT_EQ(::setenv("GPEMU_GPU_FRACTION", "2", 1), 0);
  EXPECT_EQ(gpemu_monitor_attach(), GPEMU_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(::unsetenv("GPEMU_GPU_FRACTION"), 0);
  ASSERT_EQ(gpemu_monitor_attach(), GPEMU_OK);
}

TEST_F(CApiMonitorPower, KeepsToTheSizeOfTheCallersStructure) {
  gpemu_monitor_power power{.struct_size = sizeof power + 1};
  EXPECT_EQ(gpemu_monitor_get_power(0, &power), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_monitor_get_power(0, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
}

}  // namespace
