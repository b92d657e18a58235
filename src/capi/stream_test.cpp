// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstdint>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

#include "test_node.hpp"

namespace {

TEST_F(CApi, RunsWorkOnTheTimeline) {
  gpemu_expected_interval kernel{};
  gpemu_expected_interval copy{};
  ASSERT_EQ(gpemu_stream_launch(stream_, 5 * kMillisecond, &kernel), GPEMU_OK);
  ASSERT_EQ(gpemu_stream_copy(stream_, GPEMU_COPY_DEVICE_TO_HOST, 4096, kMillisecond, &copy),
            GPEMU_OK);
  EXPECT_EQ(kernel.start_ns, 0);
  EXPECT_EQ(copy.start_ns, 5 * kMillisecond);
  EXPECT_EQ(gpemu_stream_query(stream_), GPEMU_ERROR_NOT_READY);
  EXPECT_EQ(now(), 0);
  ASSERT_EQ(gpemu_stream_synchronize(stream_), GPEMU_OK);
  EXPECT_EQ(now(), 6 * kMillisecond);
  EXPECT_EQ(gpemu_stream_query(stream_), GPEMU_OK);
  EXPECT_EQ(gpemu_stream_launch(stream_, -1, nullptr), GPEMU_ERROR_INVALID_ARGUMENT);
}

TEST_F(CApi, RefusesKindsAndDirectionsWithoutAName) {
  gpemu_stream* stream = nullptr;
  EXPECT_EQ(gpemu_stream_create(device_, std::bit_cast<gpemu_stream_kind>(2), &stream),
            GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(gpemu_last_error(), "gpemu_stream_create: kind is 2, which its type does not name");
  EXPECT_EQ(stream, nullptr);
  EXPECT_EQ(gpemu_stream_copy(stream_, std::bit_cast<gpemu_copy_direction>(-1), 1, 1, nullptr),
            GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(gpemu_last_error(),
               "gpemu_stream_copy: direction is -1, which its type does not name");
  EXPECT_EQ(gpemu_stream_query(stream_), GPEMU_OK) << "nothing was queued";
}

TEST_F(CApi, WorkThatEndsNeverIsNotDone) {
  gpemu_expected_interval kernel{};
  ASSERT_EQ(gpemu_stream_launch(stream_, 1, nullptr), GPEMU_OK);
  ASSERT_EQ(gpemu_stream_launch(stream_, INT64_MAX, &kernel), GPEMU_OK);
  EXPECT_EQ(kernel.start_ns, 1);
  EXPECT_EQ(kernel.end_ns, INT64_MAX);
  EXPECT_EQ(gpemu_stream_query(stream_), GPEMU_ERROR_NOT_READY);
}

TEST_F(CApi, HandlesKeepAliveWhatTheyStandOn) {
  gpemu_stream* stream = nullptr;
  ASSERT_EQ(gpemu_stream_default(device_, &stream), GPEMU_OK);
  gpemu_device_close(device_);
  gpemu_node_close(node_);
  device_ = nullptr;
  node_ = nullptr;
  EXPECT_EQ(gpemu_stream_launch(stream, 1, nullptr), GPEMU_OK);
  EXPECT_EQ(gpemu_stream_synchronize(stream), GPEMU_OK);
  gpemu_stream_destroy(stream);
}

}  // namespace
