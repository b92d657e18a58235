// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/use_over_time.hpp"

#include <gtest/gtest.h>

namespace gpemu::scheduling {
namespace {

TEST(UseOverTimeTest, IntervalsHaveTheirAverages) {
  UseOverTime use;
  use.add(0, 1.5, 4);
  use.add(1.5, 3, 2);
  const auto intervals = use.intervals();
  ASSERT_EQ(intervals.size(), 3U);
  EXPECT_EQ(intervals[0].gpus, 4);
  EXPECT_EQ(intervals[1].gpus, 3);
  EXPECT_EQ(intervals[2].gpus, 2);
}

TEST(UseOverTimeTest, LongTimesHaveLongerIntervals) {
  UseOverTime use;
  use.add(0, 512, 1);
  use.add(512, 600, 3);
  const auto intervals = use.intervals();
  ASSERT_EQ(intervals.size(), 300U);
  EXPECT_EQ(intervals[255].end_s, 512);
  EXPECT_EQ(intervals[255].gpus, 1);
  EXPECT_EQ(intervals[256].gpus, 3);
  double gpu_s = 0;
  for (const auto& interval : intervals)
    gpu_s += interval.gpus * (interval.end_s - interval.begin_s);
  EXPECT_EQ(gpu_s, 512 + 88 * 3);
}

}  // namespace
}  // namespace gpemu::scheduling
