// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/progress.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "gpemu/report/number_text.hpp"

namespace gpemu::report {
namespace {

using Seconds = std::chrono::duration<double>;

TEST(Rounded, HasFourSignificantDigits) {
  EXPECT_EQ(rounded(0), "0");
  EXPECT_EQ(rounded(0.00123456), "0.001235");
  EXPECT_EQ(rounded(1.23456), "1.235");
  EXPECT_EQ(rounded(9.99996), "10.00");
  EXPECT_EQ(rounded(137.525), "137.5");
  EXPECT_EQ(rounded(999.96), "1000");
  EXPECT_EQ(rounded(-12.3456), "-12.35");
  EXPECT_EQ(rounded(1234567.8), "1234568");
  EXPECT_EQ(rounded(std::nan("")), "nan");
}

TEST(WaitingTime, HasItsTwoLargestUnits) {
  EXPECT_EQ(waiting_time(Seconds(0)), "0 s");
  EXPECT_EQ(waiting_time(Seconds(3.2)), "4 s");
  EXPECT_EQ(waiting_time(Seconds(59.5)), "1 min 0 s");
  EXPECT_EQ(waiting_time(Seconds(200)), "3 min 20 s");
  EXPECT_EQ(waiting_time(Seconds(7500)), "2 h 5 min");
  EXPECT_EQ(waiting_time(Seconds(273600)), "3 d 4 h");
  EXPECT_EQ(waiting_time(Seconds(1e300)), "11574 d 1 h");
}

TEST(ProgressLine, FillsTheRoomThatIsLeft) {
  const ProgressKind training{.label = "training", .images = 128};
  EXPECT_EQ(progress_line(training, 10, 40, Seconds(2), 65, true),
            "training [====            ] 10/40 steps, 640.0 images/s, 6 s left");
  EXPECT_EQ(progress_line(training, 10, 40, Seconds(2), 1000, true).find(']'),
            std::string("training [").size() + 40);
  for (int columns = 0; columns < 200; ++columns) {
    EXPECT_LE(progress_line(training, 10, 40, Seconds(2), columns, true).size(), columns);
  }
}

TEST(ProgressLine, LeavesTheBarOutWhereItDoesNotFit) {
  const ProgressKind training{.label = "training", .images = 128};
  EXPECT_EQ(progress_line(training, 10, 40, Seconds(2), 56, true),
            "training: 10/40 steps, 640.0 images/s, 6 s left");
  EXPECT_EQ(progress_line(training, 10, 40, Seconds(2), 20, true), "training: 10/40 step");
  EXPECT_EQ(progress_line(training, 10, 40, Seconds(2), 0, false),
            "training: 10/40 steps, 640.0 images/s, 6 s left");
}

TEST(ProgressLine, CountsInItsOwnUnit) {
  const ProgressKind making{.label = "making images", .unit = "images"};
  EXPECT_EQ(progress_line(making, 500, 2000, Seconds(1), 0, false),
            "making images: 500/2000 images, 500.0 images/s, 3 s left");
}

TEST(ProgressLine, SaysNothingOfARateThatIsNotKnown) {
  const ProgressKind training{.label = "training"};
  EXPECT_EQ(progress_line(training, 0, 40, Seconds(2), 0, false), "training: 0/40 steps");
  EXPECT_EQ(progress_line(training, 0, 0, Seconds(0), 0, false), "training: 0/0 steps");
}

}  // namespace
}  // namespace gpemu::report
