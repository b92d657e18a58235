// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

inline constexpr int64_t kMillisecond = 1'000'000;

/// A private node of two emulated V100s on a virtual clock, and the context on the first.
class CApi : public testing::Test {
 protected:
  void SetUp() override {
    const gpemu_node_config config{.struct_size = sizeof config,
                                   .name = nullptr,
                                   .gpu = "V100-PCIE-32GB",
                                   .device_count = 2,
                                   .clock = GPEMU_CLOCK_VIRTUAL};
    ASSERT_EQ(gpemu_node_create(&config, &node_), GPEMU_OK) << gpemu_last_error();
    ASSERT_EQ(gpemu_device_open(node_, 0, &device_), GPEMU_OK) << gpemu_last_error();
    ASSERT_EQ(gpemu_stream_create(device_, GPEMU_STREAM_BLOCKING, &stream_), GPEMU_OK);
  }
  void TearDown() override {
    gpemu_stream_destroy(stream_);
    gpemu_device_close(device_);
    gpemu_node_close(node_);
  }

  int64_t now() {
    int64_t ns = -1;
    EXPECT_EQ(gpemu_node_now(node_, &ns), GPEMU_OK);
    return ns;
  }

  gpemu_node* node_ = nullptr;
  gpemu_device* device_ = nullptr;
  gpemu_stream* stream_ = nullptr;
};
