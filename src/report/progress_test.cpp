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
  const ProgressKind placing{.label = "placing", .unit = "runs", .images = 0};
  EXPECT_EQ(progress_line(placing, 10, 40, Seconds(2), 0, false),
            "placing: 10/40 runs, 5.000 runs/s, 6 s left");
  const ProgressKind making{.label = "making images", .unit = "images"};
  EXPECT_EQ(progress_line(making, 500, 2000, Seconds(1), 0, false),
            "making images: 500/2000 images, 500.0 images/s, 3 s left");
}

TEST(ProgressLine, SaysNothingOfARateThatIsNotKnown) {
  const ProgressKind training{.label = "training"};
  EXPECT_EQ(progress_line(training, 0, 40, Seconds(2), 0, false), "training: 0/40 steps");
  EXPECT_EQ(progress_line(training, 0, 0, Seconds(0), 0, false), "training: 0/0 steps");
}

class ProgressTest : public testing::Test {
 protected:
  /// Returns what standard error gets of 400 updates, one every 50 ms.
  std::string shown(Terminal terminal, bool quiet = false) {
    testing::internal::CaptureStderr();
    {
      Progress progress({.label = "training", .images = 8}, 400, quiet,
                        {.now = [this] { return now_; }, .terminal = [&] { return terminal; }});
      for (int done = 1; done <= 400; ++done) {
        now_ += std::chrono::milliseconds(50);
        progress.update(done);
      }
    }
    return testing::internal::GetCapturedStderr();
  }

 private:
  TimePoint now_{std::chrono::hours(1)};
};

TEST_F(ProgressTest, IsALineEveryTenSecondsInAFile) {
  EXPECT_EQ(shown({.redraws = false}),
            "training: 200/400 steps, 160.0 images/s, 10 s left\n"
            "training: 400/400 steps, 160.0 images/s, 0 s left\n");
}

TEST_F(ProgressTest, IsABarThatIsRedrawnTenTimesASecondAndRemovedAtTheEnd) {
  const std::string text = shown({.columns = 70, .redraws = true});
  const std::string start = "\r\x1b[K";
  std::size_t redrawn = 0;
  for (auto at = text.find(start); at != std::string::npos; at = text.find(start, at + 1)) {
    ++redrawn;
  }
  EXPECT_EQ(redrawn, 200 + 1);
  EXPECT_TRUE(text.starts_with(start + "training [                   ] 2/400 steps, ")) << text;
  EXPECT_TRUE(text.ends_with("] 400/400 steps, 160.0 images/s, 0 s left" + start)) << text;
}

TEST_F(ProgressTest, IsNotShownIfItIsQuiet) {
  EXPECT_EQ(shown({.redraws = true}, true), "");
  EXPECT_EQ(shown({.redraws = false}, true), "");
}

}  // namespace
}  // namespace gpemu::report
