// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

#include "test_node.hpp"

namespace {

TEST(CApiNode, RefusesBadConfigurations) {
  gpemu_node* node = nullptr;
  gpemu_node_config config{.struct_size = sizeof config,
                           .name = nullptr,
                           .gpu = "no-such-gpu",
                           .device_count = 1,
                           .clock = GPEMU_CLOCK_REAL};
  EXPECT_EQ(gpemu_node_create(&config, &node), GPEMU_ERROR_NOT_FOUND);
  config.gpu = "T4";
  config.device_count = 0;
  EXPECT_EQ(gpemu_node_create(&config, &node), GPEMU_ERROR_INVALID_ARGUMENT);
  config.device_count = 1;
  config.name = "virtual";
  config.clock = GPEMU_CLOCK_VIRTUAL;
  EXPECT_EQ(gpemu_node_create(&config, &node), GPEMU_ERROR_INVALID_ARGUMENT);
  config.struct_size = 1;
  EXPECT_EQ(gpemu_node_create(&config, &node), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(node, nullptr);
}

TEST(CApiNode, RefusesATopologyOfOtherDevices) {
  gpemu_node* node = nullptr;
  gpemu_node_config config{.struct_size = sizeof config,
                           .name = nullptr,
                           .gpu = "T4",
                           .device_count = 8,
                           .clock = GPEMU_CLOCK_REAL,
                           .topology = GPEMU_TOPOLOGIES_FOLDER "/dgx-1v.toml"};
  EXPECT_EQ(gpemu_node_create(&config, &node), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(
      gpemu_last_error(),
      "the topology dgx-1v joins GPUs of the kind V100-SXM2-32GB, but device 0 of the node "
      "is of the kind T4");
  config.topology = "no-such-file.toml";
  EXPECT_NE(gpemu_node_create(&config, &node), GPEMU_OK);
  EXPECT_EQ(node, nullptr);
}

TEST(CApiNode, RefusesAClockWithoutAName) {
  gpemu_node* node = nullptr;
  const gpemu_node_config config{.struct_size = sizeof config,
                                 .name = nullptr,
                                 .gpu = "T4",
                                 .device_count = 1,
                                 .clock = std::bit_cast<gpemu_clock>(2)};
  EXPECT_EQ(gpemu_node_create(&config, &node), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(gpemu_last_error(), "gpemu_node_create: clock is 2, which its type does not name");
  EXPECT_EQ(node, nullptr);
}

TEST(CApiNode, AShorterConfigurationHasTheRealClock) {
  gpemu_node* node = nullptr;
  gpemu_node_config config{.struct_size = offsetof(gpemu_node_config, clock),
                           .name = nullptr,
                           .gpu = "T4",
                           .device_count = 1,
                           .clock = std::bit_cast<gpemu_clock>(2)};  // not read
  int64_t before = 0, now = 0;
  ASSERT_EQ(gpemu_host_now(&before), GPEMU_OK);
  ASSERT_EQ(gpemu_node_create(&config, &node), GPEMU_OK) << gpemu_last_error();
  ASSERT_EQ(gpemu_node_now(node, &now), GPEMU_OK);
  EXPECT_GE(now, before);
  gpemu_node_close(node);
  for (const size_t size :
       {size_t{0}, offsetof(gpemu_node_config, device_count), sizeof config + 1, SIZE_MAX}) {
    config.struct_size = size;
    node = nullptr;
    EXPECT_EQ(gpemu_node_create(&config, &node), GPEMU_ERROR_INVALID_ARGUMENT) << size;
    EXPECT_EQ(node, nullptr) << size;
  }
}

TEST(CApiNode, OpensANodeByItsName) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("gpemu_node_" + std::to_string(::getpid()));
  ASSERT_EQ(::setenv("GPEMU_NODE_DIR", folder.c_str(), 1), 0);
  const gpemu_node_config config{.struct_size = sizeof config,
                                 .name = "n",
                                 .gpu = "T4",
                                 .device_count = 3,
                                 .clock = GPEMU_CLOCK_REAL};
  gpemu_node* created = nullptr;
  gpemu_node* opened = nullptr;
  EXPECT_EQ(gpemu_node_open("n", &opened), GPEMU_ERROR_NOT_FOUND) << "not created yet";
  ASSERT_EQ(gpemu_node_create(&config, &created), GPEMU_OK) << gpemu_last_error();
  ASSERT_EQ(gpemu_node_open("n", &opened), GPEMU_OK) << gpemu_last_error();
  int32_t count = 0;
  EXPECT_EQ(gpemu_node_device_count(opened, &count), GPEMU_OK);
  EXPECT_EQ(count, 3);
  gpemu_node_close(created);
  gpemu_node* again = nullptr;
  ASSERT_EQ(gpemu_node_open("n", &again), GPEMU_OK) << "the other user keeps it alive";
  gpemu_node_close(again);
  gpemu_node_close(opened);
  opened = nullptr;
  EXPECT_EQ(gpemu_node_open("n", &opened), GPEMU_ERROR_NOT_FOUND) << "no user is left";
  EXPECT_EQ(opened, nullptr);
  std::filesystem::remove_all(folder);
  ::unsetenv("GPEMU_NODE_DIR");
}

TEST(CApiNode, OpensNothingForABadName) {
  gpemu_node* node = nullptr;
  EXPECT_EQ(gpemu_node_open(nullptr, &node), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_node_open("node", nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  for (const char* const name : {"", "../node", "a/b"}) {
    EXPECT_NE(gpemu_node_open(name, &node), GPEMU_OK) << name;
  }
  EXPECT_EQ(node, nullptr);
}

TEST_F(CApi, WaitsForATimeOnTheNodesClock) {
  ASSERT_EQ(gpemu_node_wait_until(node_, 7 * kMillisecond), GPEMU_OK);
  EXPECT_EQ(now(), 7 * kMillisecond);
  ASSERT_EQ(gpemu_node_wait_until(node_, kMillisecond), GPEMU_OK) << "passed: nothing to wait for";
  EXPECT_EQ(now(), 7 * kMillisecond);
  EXPECT_EQ(gpemu_node_wait_until(nullptr, 0), GPEMU_ERROR_INVALID_ARGUMENT);
}

TEST(CApiHost, WaitsNoShorterThanAsked) {
  int64_t start = 0;
  int64_t end = 0;
  ASSERT_EQ(gpemu_host_now(&start), GPEMU_OK);
  ASSERT_EQ(gpemu_host_wait_until(start + 1000), GPEMU_OK);
  ASSERT_EQ(gpemu_host_now(&end), GPEMU_OK);
  EXPECT_GE(end, start + 1000);
}

}  // namespace
