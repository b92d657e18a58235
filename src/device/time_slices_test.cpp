// SPDX-License-Identifier: Apache-2.0
#include "time_slices.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/saturate.hpp"
#include "gpemu/sim/random.hpp"

#include "slice_table.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

constexpr TimeSliceRules kRules{.quantum = 10ns, .context_switch = 3ns};

TimePoint point(Duration time) {
  return TimePoint(time);
}

/// The turns of a process, in nanoseconds.
using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;
Spans turns_of(const Sharer& sharer) {
  Spans spans;
  for (std::uint64_t i = 0; i < sharer.turns; ++i) {
    spans.emplace_back(to_ns(sharer.turn(i).start), to_ns(sharer.turn(i).end));
  }
  return spans;
}

class TimeSlicesTest : public testing::Test {
 protected:
  /// Adds processes 1, 2, ... that want the engine for these times, from the start on.
  void add(std::vector<Duration> costs) {
    for (const Duration cost : costs) {
      Sharer& sharer = slices_.sharers.emplace_back();
      sharer.identity = slices_.sharers.size();
      if (cost > Duration()) want(sharer, 0ns, cost);
    }
  }
  static void want(Sharer& sharer, Duration earliest, Duration cost, Duration after = {}) {
    sharer.demands[sharer.demand_count++] = {
        .earliest = point(earliest), .after = after, .cost = cost};
  }
  Sharer& sharer(std::size_t number) { return slices_.sharers[number]; }
  void run(Duration until) { slices_.advance(point(until), kRules); }

  TimeSlices slices_;
};

TEST_F(TimeSlicesTest, OneProcessAloneIsNeverInterrupted) {
  add({100ns, 0ns});
  run(200ns);
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 100}}));
  EXPECT_EQ(sharer(0).served, 100ns);
  EXPECT_EQ(slices_.time, point(200ns));
}

TEST_F(TimeSlicesTest, BusyProcessesTakeTurnsOfOneSlice) {
  add({25ns, 25ns, 25ns});
  run(200ns);
  // Each turn but the first comes after a context switch. In the end, one process is alone.
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 10}, {39, 49}, {78, 83}}));
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{13, 23}, {52, 62}, {86, 91}}));
  EXPECT_EQ(turns_of(sharer(2)), (Spans{{26, 36}, {65, 75}, {94, 99}}));
}

TEST_F(TimeSlicesTest, ASliceEndsWhenItsWorkEnds) {
  add({4ns, 12ns});
  run(50ns);
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{7, 19}})) << "alone by then, so not interrupted";
}

TEST_F(TimeSlicesTest, OneWhoComesWaitsForTheEndOfTheSlice) {
  add({100ns, 0ns});
  want(sharer(1), 34ns, 5ns);
  run(60ns);
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 40}, {51, 60}}));
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{43, 48}}));
}

TEST_F(TimeSlicesTest, APauseGivesTheEngineAway) {
  add({4ns, 20ns});
  want(sharer(0), 0ns, 4ns, 1ns);
  run(60ns);
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 4}, {20, 24}})) << "ready from 5 on";
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{7, 17}, {27, 37}}));
}

TEST_F(TimeSlicesTest, ItMakesNoDifferenceHowOftenSomebodyLooks) {
  sim::Rng random(7);
  for (int program = 0; program < 500; ++program) {
    slices_ = {};
    const auto count = random.below(4) + 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      Sharer& sharer = slices_.sharers.emplace_back();
      sharer.identity = i + 1;
      for (std::uint64_t k = random.below(Sharer::kMostDemands + 1); k > 0; --k) {
        want(sharer, Duration(random.below(50)), Duration(random.below(30) + 1),
             Duration(random.below(3)));
      }
    }
    TimeSlices often = slices_;
    for (int now = 0; now <= 600; now += static_cast<int>(random.below(7)) + 1) {
      often.advance(point(Duration(now)), kRules);
    }
    often.advance(point(600ns), kRules);
    run(600ns);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(often.sharers[i].served, sharer(i).served) << program;
      ASSERT_EQ(often.sharers[i].turns, sharer(i).turns) << program;
      ASSERT_EQ(often.sharers[i].wanted(), Duration()) << program;
    }
  }
}

TEST_F(TimeSlicesTest, WhenTheOwnerLeavesTheNextInTheRingComes) {
  add({100ns, 100ns, 100ns});
  run(18ns);
  slices_.remove(1);
  run(60ns);
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{21, 31}, {47, 57}})) << "the third process";
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 10}, {34, 44}}));
}

TEST_F(TimeSlicesTest, TheOnlyProcessMayLeave) {
  add({100ns});
  run(18ns);
  slices_.remove(0);
  run(60ns);
  EXPECT_EQ(slices_.time, point(60ns));
  add({5ns});
  run(90ns);
  EXPECT_EQ(sharer(0).served, 5ns);
}

TEST_F(TimeSlicesTest, TellsTheNextTurn) {
  add({25ns, 25ns});
  EXPECT_EQ(slices_.next_turn(0, kRules), point(0ns));
  EXPECT_EQ(slices_.next_turn(1, kRules), point(13ns));
  slices_.advance_past(0, point(5ns), kRules);
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 10}}));
  run(80ns);
  EXPECT_EQ(slices_.next_turn(1, kRules), TimePoint::max()) << "it wants nothing";
}

/// Two processes with the same table, in memory of the test.
class SliceTableTest : public testing::Test {
 protected:
  SliceTableTest() {
    EXPECT_TRUE(first_.take_place());
    EXPECT_TRUE(second_.take_place());
  }

  std::unique_ptr<layout::SliceTable> memory_ = std::make_unique<layout::SliceTable>();
  std::vector<std::uint64_t> dead_;
  SliceTable::IsAlive is_alive_ = [this](std::uint64_t identity) {
    return std::ranges::find(dead_, identity) == dead_.end();
  };
  SliceTable first_{*memory_, 11, is_alive_};
  SliceTable second_{*memory_, 22, is_alive_};
};

TEST_F(SliceTableTest, EachReadsWhatTheOtherWrote) {
  TimeSlices slices;
  const std::uint64_t version = first_.read(slices);
  EXPECT_TRUE(slices.sharers.empty());
  slices.time = point(5us);
  slices.last = 1;
  slices.last_is_gone = true;
  slices.switch_end = point(6us);
  slices.slice_end = point(8us);
  slices.sharers.resize(2);
  slices.sharers[1].identity = 22;
  slices.sharers[1].served = 3us;
  slices.sharers[1].turns = 1;
  slices.sharers[1].last_turns[0] = {.start = point(1us), .end = point(4us)};
  slices.sharers[1].demand_count = 1;
  slices.sharers[1].demands[0] = {.earliest = point(2us), .after = 1us, .cost = 7us};
  ASSERT_TRUE(first_.write(version, slices));
  TimeSlices seen;
  EXPECT_EQ(second_.read(seen), second_.version());
  EXPECT_EQ(seen.time, point(5us));
  EXPECT_EQ(seen.last, 1U);
  EXPECT_TRUE(seen.last_is_gone);
  EXPECT_EQ(seen.switch_end, point(6us));
  EXPECT_EQ(seen.slice_end, point(8us));
  ASSERT_EQ(seen.sharers.size(), 2U);
  EXPECT_EQ(seen.sharers[1].identity, 22U);
  EXPECT_EQ(seen.sharers[1].served, 3us);
  EXPECT_EQ(seen.sharers[1].turn(0).end, point(4us));
  EXPECT_EQ(seen.sharers[1].demands[0].after, 1us);
  EXPECT_EQ(seen.sharers[1].wanted(), 7us);
}

TEST_F(SliceTableTest, AChangeOfAnOldVersionIsRefused) {
  TimeSlices slices;
  const std::uint64_t version = first_.read(slices);
  slices.time = point(1us);
  const auto next = second_.write(version, slices);
  ASSERT_TRUE(next);
  EXPECT_FALSE(first_.write(version, slices));
  EXPECT_TRUE(first_.write(*next, slices));
}

TEST_F(SliceTableTest, AStateThatCountsIsNeverOverwritten) {
  TimeSlices slices;
  std::uint64_t version = first_.read(slices);
  for (int i = 1; i < 10; ++i) {
    slices.time = point(Duration(i));
    SliceTable& writer = i % 3 == 0 ? second_ : first_;
    const auto next = writer.write(version, slices);
    ASSERT_TRUE(next);
    ASSERT_NE(SliceTable::state_of(*next), SliceTable::state_of(version));
    version = *next;
  }
}

TEST_F(SliceTableTest, AProcessWithoutAPlaceTakesThatOfADeadOne) {
  std::vector<SliceTable> others;
  for (std::uint64_t i = 0; i + 2 < layout::kMostSharers; ++i) {
    others.emplace_back(*memory_, 100 + i, is_alive_);
    ASSERT_TRUE(others.back().take_place());
  }
  SliceTable late(*memory_, 33, is_alive_);
  EXPECT_FALSE(late.take_place());
  TimeSlices slices;
  EXPECT_FALSE(late.write(late.read(slices), slices));
  dead_ = {22};
  EXPECT_TRUE(late.take_place());
  late.leave_place();
  EXPECT_TRUE(late.take_place());
}

TEST_F(SliceTableTest, AnyBytesAreRead) {
  sim::Rng random(3);
  TimeSlices slices;
  for (int round = 0; round < 200; ++round) {
    for (auto& word : memory_->states[0].words) {
      const std::uint64_t bits = random.below(~std::uint64_t{0});
      word = static_cast<std::int64_t>(round % 2 == 0 ? bits : bits % 40);
    }
    SliceTable::read(memory_->states[0], slices);
    ASSERT_LE(slices.sharers.size(), layout::kMostSharers);
    const TimePoint later = saturating_add(slices.time, 100ms);
    slices.advance(later, {.quantum = kShortestQuantum, .context_switch = {}});
    ASSERT_GE(slices.time, later);
  }
}

TEST(SliceLengthTest, IsAPartOfTheDefault) {
  EXPECT_EQ(slice_length(2ms, TimeSliceLength::kDefault), 2ms);
  EXPECT_EQ(slice_length(2ms, TimeSliceLength::kShort), 1ms);
  EXPECT_EQ(slice_length(2ms, TimeSliceLength::kMedium), 4ms);
  EXPECT_EQ(slice_length(2ms, TimeSliceLength::kLong), 8ms);
  EXPECT_EQ(slice_length(kShortestQuantum, TimeSliceLength::kShort), kShortestQuantum);
  EXPECT_EQ(slice_length(kLongestQuantum, TimeSliceLength::kLong), kLongestQuantum);
}

}  // namespace
}  // namespace gpemu::device
