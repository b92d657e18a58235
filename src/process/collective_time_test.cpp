// SPDX-License-Identifier: Apache-2.0
#include "collective_time.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

namespace gpemu::process {
namespace {

using Parts = std::vector<std::pair<std::int64_t, std::int64_t>>;

Parts added_to(TimeSet& set, std::int64_t start, std::int64_t end) {
  Parts parts;
  set.add(start, end, [&](std::int64_t from, std::int64_t to) { parts.emplace_back(from, to); });
  return parts;
}

TEST(TimeSet, TellsWhatIsNew) {
  TimeSet set;
  EXPECT_EQ(added_to(set, 10, 20), (Parts{{10, 20}}));
  EXPECT_EQ(added_to(set, 30, 40), (Parts{{30, 40}}));
  EXPECT_EQ(added_to(set, 12, 18), Parts());
  EXPECT_EQ(added_to(set, 5, 50), (Parts{{5, 10}, {20, 30}, {40, 50}}));
  EXPECT_EQ(added_to(set, 50, 60), (Parts{{50, 60}}));
  EXPECT_EQ(set.intervals(), 1U) << "they touch";
  EXPECT_EQ(added_to(set, 70, 70), Parts());
}

TEST(TimeSet, MeasuresWhatItCovers) {
  TimeSet set;
  added_to(set, 10, 20);
  added_to(set, 30, 40);
  EXPECT_EQ(set.covered(0, 10), 0);
  EXPECT_EQ(set.covered(0, 100), 20);
  EXPECT_EQ(set.covered(15, 35), 10);
  EXPECT_EQ(set.covered(20, 30), 0);
}

TEST(TimeSet, CountsNothingTwiceOfWhatItForgot) {
  TimeSet set;
  added_to(set, 10, 20);
  added_to(set, 30, 40);
  set.forget(20, 10);
  EXPECT_EQ(added_to(set, 10, 35), (Parts{{20, 30}}));
  set.forget(INT64_MIN, 0);
  EXPECT_EQ(set.intervals(), 0U);
  EXPECT_EQ(added_to(set, 0, 50), (Parts{{40, 50}}));
}

TEST(CollectiveTime, IsDividedIntoWaitingMovingAndHidden) {
  CollectiveTime time;
  time.ask(0);
  time.run(5, 15);
  time.finish(0, 10, 30, 50);
  time.run(45, 60);
  EXPECT_EQ(time.total(), 40);
  EXPECT_EQ(time.moving(), 20);
  EXPECT_EQ(time.hidden(), 10) << "5 ns at each end";
}

TEST(CollectiveTime, CountsOverlappingCollectivesOnce) {
  CollectiveTime time;
  time.ask(0);
  time.ask(0);
  time.finish(0, 10, 20, 40);
  time.finish(0, 30, 35, 60);
  EXPECT_EQ(time.total(), 50);
  EXPECT_EQ(time.moving(), 40);
}

TEST(CollectiveTime, KeepsNoKernelsBeforeTheFirstThatIsAskedFor) {
  CollectiveTime time;
  for (int i = 0; i < 1000; ++i) time.run(10 * i, 10 * i + 5);
  EXPECT_EQ(time.kept(), 1U);
  time.ask(10'000);
  for (int i = 1000; i < 2000; ++i) time.run(10 * i, 10 * i + 5);
  EXPECT_GE(time.kept(), 1000U) << "the collective may begin before any of them";
  time.finish(10'000, 10'000, 10'000, 20'000);
  EXPECT_EQ(time.hidden(), 5000);
  time.run(20'000, 20'005);
  EXPECT_EQ(time.kept(), 3U);
}

TEST(CollectiveTime, OfACollectiveThatNeverEndsTakesLimitedMemory) {
  CollectiveTime time;
  time.ask(0);
  for (std::int64_t i = 0; i < 70'000; ++i) time.run(10 * i, 10 * i + 5);
  EXPECT_EQ(time.kept(), 65'536U);
}

/// Compares with a bit for each nanosecond, in any order of what is told.
TEST(CollectiveTime, IsThatOfAModel) {
  constexpr std::size_t kEnd = 300;
  sim::Rng random(7);
  const auto below = [&random](std::int64_t end) {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(end)));
  };
  for (int round = 0; round < 500; ++round) {
    std::bitset<kEnd> progress, motion, kernels;
    CollectiveTime time;
    const auto set = [](std::bitset<kEnd>& bits, std::int64_t from, std::int64_t to) {
      for (auto i = from; i < to; ++i) bits.set(static_cast<std::size_t>(i));
    };
    // One more is asked for first and ends last, so that no kernel is forgotten.
    time.ask(0);
    for (int i = 0; i < 20; ++i) {
      std::array<std::int64_t, 3> times = {below(kEnd), below(kEnd), below(kEnd)};
      std::ranges::sort(times);
      if (below(2) == 0) {
        time.ask(times[0]);
        time.finish(times[0], times[0], times[1], times[2]);
        set(progress, times[0], times[2]);
        set(motion, times[1], times[2]);
      } else {
        time.run(times[0], times[1]);
        set(kernels, times[0], times[1]);
      }
      ASSERT_EQ(time.total(), static_cast<std::int64_t>(progress.count())) << round;
      ASSERT_EQ(time.moving(), static_cast<std::int64_t>(motion.count())) << round;
      ASSERT_EQ(time.hidden(), static_cast<std::int64_t>((progress & kernels).count())) << round;
    }
  }
}

}  // namespace
}  // namespace gpemu::process
