// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

#include "test_node.hpp"

namespace {

TEST_F(CApi, AnswersNullWithAnError) {
  uint64_t address = 0;
  EXPECT_EQ(gpemu_node_create(nullptr, &node_), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_device_open(nullptr, 0, &device_), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_device_allocate(nullptr, 1, &address), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_device_allocate(device_, 1, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_stream_launch(nullptr, 1, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_event_record(nullptr, stream_), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(gpemu_last_error()).find("gpemu_event_record"), std::string::npos);
  gpemu_stream_destroy(nullptr);
  gpemu_event_destroy(nullptr);
  gpemu_cost_model_destroy(nullptr);
}

TEST(CApiStatus, HasWordsForEachStatus) {
  EXPECT_STREQ(gpemu_status_name(GPEMU_OK), "success");
  EXPECT_STREQ(gpemu_status_name(GPEMU_ERROR_UNSUPPORTED), "not supported");
  EXPECT_STREQ(gpemu_version(), GPEMU_VERSION);
}

}  // namespace
