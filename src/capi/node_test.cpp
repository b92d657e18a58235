// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstdint>

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
