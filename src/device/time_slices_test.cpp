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

/// Shares of periods of 100 ns; switches take 3 ns.
class SharesOfTimeTest : public TimeSlicesTest {
 protected:
  /// Adds a process that wants the engine for a time, and has a share in per cent.
  Sharer& add_with(int percent, bool capped, Duration cost) {
    add({cost});
    Sharer& added = slices_.sharers.back();
    added.share = {.part = static_cast<std::uint32_t>(percent) * kWholeWidth / 100,
                   .capped = capped};
    return added;
  }
  void run(Duration until) { slices_.advance(point(until), kShareRules); }

  static constexpr TimeSliceRules kShareRules{
      .quantum = 10ns, .context_switch = 3ns, .period = 100ns};
};

TEST_F(SharesOfTimeTest, BusyProcessesHaveTheirSharesInOneTurnEach) {
  add_with(25, false, 10'000ns);
  add_with(75, false, 10'000ns);
  run(400ns);
  // The second one begins later in each period, by the switches before, and uses 3 or 6 ns of its
  // next share at once.
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 25}, {106, 131}, {209, 234}, {309, 334}}));
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{28, 103}, {134, 206}, {237, 306}, {337, 400}}));
}

TEST_F(SharesOfTimeTest, AloneASoftShareHasAllAndACapItsPart) {
  add_with(50, false, 1000ns);
  run(200ns);
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 200}}));
  slices_ = {};
  add_with(50, true, 1000ns);
  run(300ns);
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 50}, {100, 150}, {200, 250}}));
  EXPECT_EQ(slices_.next_turn(0, kShareRules), point(300ns));
  EXPECT_EQ(slices_.demand_end(0, kShareRules), point(1950ns));
}

TEST_F(SharesOfTimeTest, TurnsOfACapAreExpectedOneByOne) {
  add_with(50, true, 5000ns);
  slices_.advance_past(0, point(0ns), kShareRules);
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 50}}));
  slices_.advance_past(0, point(50ns), kShareRules);
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 50}, {100, 150}}));
}

TEST_F(SharesOfTimeTest, WhatTheCapLeavesGoesToTheOthers) {
  add_with(30, true, 1000ns);
  add_with(30, false, 1000ns);
  run(200ns);
  // The second one's slices after its share end at 73, 83, 93, 103.
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 30}, {106, 136}}));
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{33, 103}, {139, 200}}));
}

TEST_F(SharesOfTimeTest, WhatSharesLeaveIsDividedByOrdinarySlices) {
  add_with(50, false, 1000ns);
  add({1000ns, 1000ns});
  run(100ns);
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 50}, {79, 89}}));
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{53, 63}, {92, 100}}));
  EXPECT_EQ(turns_of(sharer(2)), (Spans{{66, 76}}));
}

TEST_F(SharesOfTimeTest, ProcessesOfATenantHaveOneShareTogether) {
  add_with(30, true, 10'000ns);
  add_with(30, true, 10'000ns);
  add_with(0, false, 10'000ns);
  for (std::size_t i : {0, 1}) sharer(i).share.tenant = 7;
  run(400ns);
  EXPECT_EQ(sharer(0).served + sharer(1).served, 120ns);
  EXPECT_EQ(sharer(0).served, sharer(1).served);
  // One that comes later finds its tenant's share used.
  const Sharer& late = slices_.add(9, sharer(0).share);
  EXPECT_EQ(late.used, sharer(0).used);
  EXPECT_EQ(late.period, sharer(0).period);
}

TEST_F(SharesOfTimeTest, WhoComesDuringAShareWaitsForAnOrdinarySlice) {
  add_with(50, false, 1000ns);
  Sharer& late = add_with(50, false, 0ns);
  want(late, 14ns, 5ns);
  run(100ns);
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 20}, {31, 100}}));
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{23, 28}}));
}

/// Random processes with random shares: nobody has the engine beside another, a cap is never
/// exceeded in a period, and the engine only waits for who may not have it.
TEST_F(SharesOfTimeTest, HoldForRandomProcesses) {
  sim::Rng random(47);
  const auto below = [&](std::uint64_t end) {
    return static_cast<std::int64_t>(random.below(end));
  };
  for (int program = 0; program < 2000; ++program) {
    slices_ = {};
    const std::int64_t count = 1 + below(4);
    for (std::int64_t i = 0; i < count; ++i) {
      Sharer& added = add_with(static_cast<int>(below(5) * 20), below(2) == 0, 0ns);
      if (added.share.part == 0) added.share.capped = false;
    }
    std::vector<Duration> last_served(slices_.sharers.size());
    std::vector<Duration> in_period(slices_.sharers.size());
    for (std::int64_t now = 0; now < 1000; ++now) {
      const bool wants = std::ranges::any_of(slices_.sharers, [&](const Sharer& one) {
        return one.wants_at(point(Duration(now)), kShareRules);
      });
      const bool switches = slices_.switch_end > point(Duration(now));
      run(Duration(now + 1));
      Duration done{};
      for (std::size_t i = 0; i < slices_.sharers.size(); ++i) {
        Sharer& one = sharer(i);
        const Duration own = one.served - std::exchange(last_served[i], one.served);
        done += own;
        if (now % 100 == 0) in_period[i] = {};
        in_period[i] += own;
        if (one.share.capped) {
          ASSERT_LE(in_period[i], 100ns * one.share.part / kWholeWidth) << program << ", " << now;
        }
        if (one.demand_count == 0 && below(10) == 0) {
          want(one, Duration(now + 1 + below(20)), Duration(1 + below(60)));
        }
      }
      ASSERT_LE(done, 1ns) << program << ", " << now;
      if (wants && !switches && slices_.switch_end <= point(Duration(now))) {
        ASSERT_EQ(done, 1ns) << program << ", " << now;
      }
    }
  }
}

TEST_F(SharesOfTimeTest, ReachOthersThroughTheTable) {
  add_with(25, true, 100ns).share.tenant = 64;
  add_with(75, false, 100ns).share.tenant = 1;
  run(60ns);
  auto table = std::make_unique<layout::SliceTable>();
  SliceTable own(*table, 7, [](std::uint64_t) { return true; });
  ASSERT_TRUE(own.take_place());
  TimeSlices read;
  ASSERT_TRUE(own.write(own.read(read), slices_));
  own.read(read);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read.sharers[i].share.part, sharer(i).share.part);
    EXPECT_EQ(read.sharers[i].share.capped, sharer(i).share.capped);
    EXPECT_EQ(read.sharers[i].share.tenant, sharer(i).share.tenant);
    EXPECT_EQ(read.sharers[i].period, sharer(i).period);
    EXPECT_EQ(read.sharers[i].used, sharer(i).used);
  }
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

TEST_F(TimeSlicesTest, AnUrgentProcessComesFirst) {
  add({25ns, 25ns, 25ns});
  sharer(1).priority = ProcessPriority::kLow;
  sharer(2).priority = ProcessPriority::kHigh;
  run(200ns);
  EXPECT_EQ(turns_of(sharer(2)), (Spans{{0, 25}})) << "nobody as urgent ends its slice";
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{28, 53}}));
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{56, 81}}));
}

TEST_F(TimeSlicesTest, AnUrgentProcessWaitsForTheEndOfASlice) {
  add({30ns, 0ns});
  sharer(1).priority = ProcessPriority::kHigh;
  want(sharer(1), 12ns, 15ns);
  run(100ns);
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{23, 38}}));
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 20}, {41, 51}}));
}

TEST_F(TimeSlicesTest, EquallyUrgentProcessesTakeTurns) {
  add({20ns, 20ns, 20ns});
  sharer(1).priority = sharer(2).priority = ProcessPriority::kHigh;
  run(200ns);
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{0, 10}, {26, 36}}));
  EXPECT_EQ(turns_of(sharer(2)), (Spans{{13, 23}, {39, 49}}));
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{52, 72}}));
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

/// The paces of clients with widths in percent, as shares of their own widths.
std::vector<double> paces_of(const std::vector<int>& percent) {
  std::vector<std::uint32_t> widths;
  for (const int width : percent) {
    widths.push_back(static_cast<std::uint32_t>(width) * kWholeWidth / 100);
  }
  std::vector<Pace> paces(widths.size());
  set_paces(widths, paces);
  std::vector<double> shares;
  for (const Pace& pace : paces) shares.push_back(static_cast<double>(pace.work) / pace.time);
  return shares;
}

TEST(TimeSlices, ClientsThatFitSideBySideRunAtFullPace) {
  EXPECT_EQ(paces_of({100}), (std::vector{1.0}));
  EXPECT_EQ(paces_of({50, 50}), (std::vector{1.0, 1.0}));
  EXPECT_EQ(paces_of({30, 30, 40}), (std::vector{1.0, 1.0, 1.0}));
}

TEST(TimeSlices, AGpuThatIsTooSmallForItsClientsIsDividedMaxMinFairly) {
  EXPECT_EQ(paces_of({100, 100}), (std::vector{0.5, 0.5}));
  EXPECT_EQ(paces_of({100, 100, 100, 100}), (std::vector{0.25, 0.25, 0.25, 0.25}));
  EXPECT_EQ(paces_of({100, 20}), (std::vector{0.8, 1.0})) << "20 is less than an equal part";
  EXPECT_EQ(paces_of({100, 20, 50}), (std::vector{0.4, 1.0, 0.8}));
  EXPECT_EQ(paces_of({60, 60}), (std::vector{5.0 / 6, 5.0 / 6}));
}

TEST_F(TimeSlicesTest, ClientsOfOneServerRunSideBySide) {
  add({20ns, 5ns, 0ns});
  for (Sharer& client : slices_.sharers) client.server = 7;
  want(sharer(2), 14ns, 4ns);
  run(100ns);
  // Half each until 10; alone until 14; half each until 22; then alone, with 20 - 5 - 4 - 4 left.
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 10}, {10, 14}, {14, 22}, {22, 29}}));
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{0, 10}}));
  EXPECT_EQ(turns_of(sharer(2)), (Spans{{14, 22}}));
  EXPECT_EQ(sharer(0).served, 20ns);
  EXPECT_EQ(sharer(0).turn(0).pace, (Pace{.work = 1, .time = 2}));
  EXPECT_EQ(sharer(0).turn(1).pace, Pace{});
}

TEST_F(TimeSlicesTest, ClientsOfAServerAreOnePartyBesideOthers) {
  add({10ns, 10ns, 10ns});
  sharer(0).server = sharer(2).server = 7;
  run(100ns);
  // A slice of both clients, with half of the engine each; then one of the process by itself.
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 10}, {26, 36}}));
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{13, 23}}));
  EXPECT_EQ(turns_of(sharer(2)), (Spans{{0, 10}, {26, 36}}));
}

TEST_F(TimeSlicesTest, AServerKeepsItsTurnWhenAClientLeaves) {
  add({30ns, 30ns, 30ns});
  sharer(0).server = sharer(2).server = 7;
  run(4ns);
  slices_.remove(0);
  run(30ns);
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{0, 4}, {4, 10}, {26, 30}})) << "the other client";
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{13, 23}})) << "the process by itself";
}

TEST_F(TimeSlicesTest, WorkOfClientsIsNeitherLostNorInvented) {
  sim::Rng random(11);
  for (int program = 0; program < 500; ++program) {
    slices_ = {};
    Duration wanted{};
    for (std::uint64_t i = random.below(6) + 1; i > 0; --i) {
      Sharer& client = slices_.sharers.emplace_back();
      client.identity = i;
      client.server = random.below(3);
      client.width = static_cast<std::uint32_t>(random.below(kWholeWidth) + 1);
      if (program % 2 == 0) {
        client.priority = static_cast<ProcessPriority>(static_cast<int>(random.below(3)) - 1);
      }
      for (std::uint64_t k = random.below(Sharer::kMostDemands + 1); k > 0; --k) {
        want(client, Duration(random.below(50)), Duration(random.below(30) + 1),
             Duration(random.below(3)));
      }
      wanted += client.wanted();
    }
    TimeSlices often = slices_;
    for (int now = 0; now <= 3000; now += static_cast<int>(random.below(7)) + 1) {
      often.advance(point(Duration(now)), kRules);
    }
    often.advance(point(3000ns), kRules);
    run(3000ns);
    Duration served{};
    for (std::size_t i = 0; i < slices_.sharers.size(); ++i) {
      served += sharer(i).served;
      ASSERT_EQ(often.sharers[i].served, sharer(i).served) << program;
      ASSERT_EQ(often.sharers[i].turns, sharer(i).turns) << program;
      ASSERT_EQ(often.sharers[i].last_turns.back().end, sharer(i).last_turns.back().end) << program;
      ASSERT_EQ(sharer(i).wanted(), Duration()) << program;
    }
    ASSERT_EQ(served, wanted) << program;
  }
}

TEST_F(TimeSlicesTest, LessUrgentClientsGetTheRoomThatIsLeft) {
  add({10ns, 30ns, 30ns});
  for (int i = 0; i < 3; ++i) sharer(static_cast<std::size_t>(i)).server = 1;
  sharer(0).width = kWholeWidth;
  sharer(1).width = kWholeWidth / 4;
  sharer(1).priority = sharer(2).priority = ProcessPriority::kLow;
  run(200ns);
  EXPECT_EQ(turns_of(sharer(0)), (Spans{{0, 10}})) << "it needs the whole GPU";
  EXPECT_EQ(turns_of(sharer(1)), (Spans{{10, 40}})) << "its width fits";
  EXPECT_EQ(turns_of(sharer(2)), (Spans{{10, 40}, {40, 48}})) << "22 of 30 ns at 3/4, then alone";
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
  slices.sharers[1].server = 5;
  slices.sharers[1].width = 4000;
  slices.sharers[1].priority = ProcessPriority::kLow;
  slices.sharers[1].served = 3us;
  slices.sharers[1].turns = 1;
  slices.sharers[1].last_turns[0] = {
      .start = point(1us), .end = point(4us), .pace = {.work = 2, .time = 3}};
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
  EXPECT_EQ(seen.sharers[1].server, 5U);
  EXPECT_EQ(seen.sharers[1].width, 4000U);
  EXPECT_EQ(seen.sharers[1].priority, ProcessPriority::kLow);
  EXPECT_EQ(seen.sharers[1].turn(0).end, point(4us));
  EXPECT_EQ(seen.sharers[1].turn(0).pace, (Pace{.work = 2, .time = 3}));
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

TEST_F(SliceTableTest, AProcessGetsNoPlaceWithoutMemory) {
  std::vector<std::size_t> asked;
  const auto allocate = [&](std::size_t offset, std::size_t size) {
    asked = {offset, size};
    return false;
  };
  SliceTable late(*memory_, 33, is_alive_, allocate);
  EXPECT_FALSE(late.take_place());
  // Of the third place, as the first two have owners.
  const auto* const begin = reinterpret_cast<const std::byte*>(memory_.get());
  const auto* const states = reinterpret_cast<const std::byte*>(&memory_->states[4]);
  EXPECT_EQ(asked, (std::vector{static_cast<std::size_t>(states - begin),
                                2 * sizeof(layout::SliceState)}));
  EXPECT_EQ(memory_->owners[2].load(), 0U);
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
    const TimePoint later = saturating_add(slices.time, 20ms);
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
