// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <gtest/gtest.h>

#include "gpemu/gpemu.h"

#include "test_node.hpp"

namespace {

TEST_F(CApi, EventsTimeAndOrderWork) {
  gpemu_event* start = nullptr;
  gpemu_event* end = nullptr;
  ASSERT_EQ(gpemu_event_create(&start), GPEMU_OK);
  ASSERT_EQ(gpemu_event_create(&end), GPEMU_OK);
  int64_t elapsed = 0;
  EXPECT_EQ(gpemu_event_elapsed(start, end, &elapsed), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gpemu_event_query(end), GPEMU_OK) << "never recorded: nothing to wait for";

  ASSERT_EQ(gpemu_event_record(start, stream_), GPEMU_OK);
  EXPECT_EQ(gpemu_event_elapsed(start, end, &elapsed), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(gpemu_last_error(), "the end event was never recorded");
  EXPECT_EQ(gpemu_event_elapsed(end, start, &elapsed), GPEMU_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(gpemu_last_error(), "the start event was never recorded");
  ASSERT_EQ(gpemu_stream_launch(stream_, 3 * kMillisecond, nullptr), GPEMU_OK);
  ASSERT_EQ(gpemu_event_record(end, stream_), GPEMU_OK);
  EXPECT_EQ(gpemu_event_elapsed(start, end, &elapsed), GPEMU_ERROR_NOT_READY);

  gpemu_stream* other = nullptr;
  ASSERT_EQ(gpemu_stream_create(device_, GPEMU_STREAM_NON_BLOCKING, &other), GPEMU_OK);
  ASSERT_EQ(gpemu_stream_wait_event(other, end), GPEMU_OK);
  gpemu_expected_interval copy{};
  ASSERT_EQ(gpemu_stream_copy(other, GPEMU_COPY_HOST_TO_DEVICE, 1, kMillisecond, &copy), GPEMU_OK);
  EXPECT_EQ(copy.start_ns, 3 * kMillisecond);

  ASSERT_EQ(gpemu_event_synchronize(end), GPEMU_OK);
  EXPECT_EQ(now(), 3 * kMillisecond);
  ASSERT_EQ(gpemu_event_elapsed(start, end, &elapsed), GPEMU_OK);
  EXPECT_EQ(elapsed, 3 * kMillisecond);
  gpemu_stream_destroy(other);
  gpemu_event_destroy(start);
  gpemu_event_destroy(end);
}

}  // namespace
