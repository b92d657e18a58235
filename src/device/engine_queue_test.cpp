// SPDX-License-Identifier: Apache-2.0
#include "engine_queue.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

TimePoint t(Duration time) {
  return TimePoint(time);
}

/// Two processes that queue on one engine, with records in memory of the test.
class EngineQueueTest : public testing::Test {
 protected:
  struct Trimmed {
    TimePoint now;
    Duration own_tail;
    bool operator==(const Trimmed&) const = default;
  };

  [[nodiscard]] std::unique_ptr<DeviceSharing> sharing_of(layout::HoldingRecord& own) {
    return make_sharing(SharingPolicy::kFifo, {&engine_, 1}, own,
                        [this](std::size_t, TimePoint now, std::int64_t own_tail_ns) {
                          trimmed_.push_back({now, Duration(own_tail_ns)});
                          if (!trims_) return;
                          engine_.tail_ns = std::max(to_ns(now), own_tail_ns);
                        });
  }
  /// Reserves time for work that is ready at once.
  void reserve_for(Duration cost) {
    own_.reserve_for(t({}), {.earliest = t({}), .after = {}, .cost = cost});
  }
  [[nodiscard]] TimePoint tail() const { return t(Duration(engine_.tail_ns)); }
  /// Returns how much of the time from now to the tail the others see as work.
  [[nodiscard]] Duration work_from(Duration now) const {
    return Duration(layout::work_between(engine_, now.count(), engine_.tail_ns));
  }

  layout::EngineRecord engine_{};
  layout::HoldingRecord own_holding_{};
  layout::HoldingRecord other_holding_{};
  layout::HoldingRecord::Use& own_use_ = own_holding_.engines[0];
  layout::HoldingRecord::Use& other_use_ = other_holding_.engines[0];
  std::vector<Trimmed> trimmed_;
  bool trims_ = false;  ///< whether the other process is dead.
  std::unique_ptr<DeviceSharing> own_sharing_ = sharing_of(own_holding_);
  std::unique_ptr<DeviceSharing> other_sharing_ = sharing_of(other_holding_);
  EngineQueue own_ = {*own_sharing_, 0, engine_, own_use_};
  EngineQueue other_ = {*other_sharing_, 0, engine_, other_use_};
};

void expect_interval(const Service& interval, Duration start, Duration end, Duration busy) {
  EXPECT_EQ(interval.start, t(start));
  EXPECT_EQ(interval.end, t(end));
  EXPECT_EQ(interval.busy, busy);
}

TEST_F(EngineQueueTest, ProcessesComeInTheOrderInWhichTheyReserve) {
  expect_interval(own_.serve(t(0us), t(0us), 10us), 0us, 10us, 10us);
  expect_interval(other_.serve(t(0us), t(0us), 5us), 10us, 15us, 5us);
  expect_interval(own_.serve(t(0us), t(10us), 3us), 15us, 18us, 3us);
  EXPECT_EQ(tail(), t(18us));
  EXPECT_EQ(Duration(own_use_.tail_ns), 18us);
  EXPECT_EQ(Duration(other_use_.tail_ns), 15us);
}

TEST_F(EngineQueueTest, WorkThatIsReadyLaterStartsLater) {
  expect_interval(own_.serve(t(1us), t(20us), 10us), 20us, 30us, 10us);
  EXPECT_EQ(work_from(1us), 10us) << "the others see a gap before it";
}

TEST_F(EngineQueueTest, PromisedWorkKeepsItsTimeThoughOthersQueue) {
  own_.add_unstarted(10us);
  reserve_for(10us);
  expect_interval(other_.serve(t(0us), t(0us), 5us), 10us, 15us, 5us);
  expect_interval(own_.serve(t(0us), t(0us), 10us), 0us, 10us, 10us);
  EXPECT_EQ(tail(), t(15us));
}

TEST_F(EngineQueueTest, ReservesNoMoreThanWhatPromisedWorkLacks) {
  own_.add_unstarted(10us);
  reserve_for(10us);
  reserve_for(10us);
  EXPECT_EQ(tail(), t(10us)) << "it has the time";
  own_.add_unstarted(-4us);
  own_.add_unstarted(6us);
  reserve_for(6us);
  EXPECT_EQ(tail(), t(12us)) << "it lacks two microseconds";
}

TEST_F(EngineQueueTest, WorkRunsInSeveralTurnsIfOneIsTooShort) {
  own_.add_unstarted(10us);
  reserve_for(10us);
  static_cast<void>(other_.serve(t(0us), t(0us), 5us));
  expect_interval(own_.serve(t(0us), t(4us), 10us), 4us, 19us, 10us);
  EXPECT_EQ(tail(), t(19us));
}

TEST_F(EngineQueueTest, TheNextTurnIsInOwnTimeOrAfterAllOthers) {
  EXPECT_EQ(own_.next_turn(t(0us), t(3us)), t(3us));
  static_cast<void>(own_.serve(t(0us), t(0us), 10us));
  static_cast<void>(other_.serve(t(0us), t(0us), 5us));
  EXPECT_EQ(own_.next_turn(t(0us), t(3us)), t(3us)) << "in its own turn";
  EXPECT_EQ(own_.next_turn(t(0us), t(12us)), t(15us)) << "after the other's";
  EXPECT_EQ(own_.next_turn(t(0us), t(40us)), t(40us)) << "nobody is there";
}

TEST_F(EngineQueueTest, TimeBeforeSettledWorkIsNotPromisedAgain) {
  own_.add_unstarted(20us);
  reserve_for(20us);
  own_.settle(t(0us), t(15us));
  own_.add_unstarted(-15us);
  own_.add_unstarted(5us);
  reserve_for(10us);
  EXPECT_EQ(tail(), t(25us)) << "of its turn, five microseconds are left";
}

TEST_F(EngineQueueTest, WorkThatComesEarlierFillsTheGap) {
  static_cast<void>(own_.serve(t(0us), t(20us), 10us));
  EXPECT_EQ(work_from(0us), 10us);
  own_.fill_gaps(t(0us), t(5us), t(12us), 7us);
  EXPECT_EQ(work_from(0us), 17us);
  own_.fill_gaps(t(0us), t(40us), t(50us), 10us);
  EXPECT_EQ(work_from(0us), 17us) << "no gap was there";
}

TEST_F(EngineQueueTest, WorkFillsOneGapAfterTheOther) {
  static_cast<void>(own_.serve(t(0us), t(4us), 6us));
  static_cast<void>(own_.serve(t(0us), t(14us), 6us));
  EXPECT_EQ(work_from(0us), 12us) << "two gaps of four microseconds";
  own_.fill_gaps(t(0us), t(0us), t(20us), 5us);
  EXPECT_EQ(work_from(0us), 17us);
}

TEST_F(EngineQueueTest, OthersSeeWhatWasCounted) {
  own_.count(10us, 64);
  own_.count(5us, 36);
  EXPECT_EQ(Duration(own_use_.queued.busy_ns), 15us);
  EXPECT_EQ(own_use_.queued.operations, 2U);
  EXPECT_EQ(own_use_.queued.bytes, 100U);
  own_.count(Duration::max(), 0);
  EXPECT_EQ(Duration(own_use_.queued.busy_ns), Duration::max()) << "it does not overflow";
}

TEST_F(EngineQueueTest, DoesNotLookForDeadProcessesBehindAShortQueue) {
  static_cast<void>(own_.serve(t(0ms), t(0ms), 40ms));
  static_cast<void>(own_.serve(t(15ms), t(40ms), 1ms));
  EXPECT_TRUE(trimmed_.empty()) << "it is its own";
  static_cast<void>(other_.serve(t(35ms), t(35ms), 1ms));
  EXPECT_TRUE(trimmed_.empty());
}

TEST_F(EngineQueueTest, DropsTheWorkOfTheDeadBeforeItQueuesAfterIt) {
  static_cast<void>(own_.serve(t(0ms), t(0ms), 3ms));
  static_cast<void>(other_.serve(t(0ms), t(0ms), 1h));
  trims_ = true;
  expect_interval(own_.serve(t(2ms), t(2ms), 4ms), 2ms, 6ms, 4ms);
  EXPECT_EQ(trimmed_, (std::vector{Trimmed{.now = t(2ms), .own_tail = 3ms}}));
}

TEST_F(EngineQueueTest, LooksForDeadProcessesOncePerMillisecond) {
  static_cast<void>(other_.serve(t(0ms), t(0ms), 1h));
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(own_.next_turn(t(5ms) + i * 20us, t(5ms) + i * 20us));
  }
  EXPECT_EQ(trimmed_, (std::vector{Trimmed{.now = t(5ms), .own_tail = 0ms},
                                   Trimmed{.now = t(6ms), .own_tail = 0ms}}));
}

TEST_F(EngineQueueTest, WaitsForNoTailThatNobodyCanHaveQueued) {
  static_cast<void>(own_.serve(t(0us), t(0us), 3us));
  engine_.tail_ns = (layout::kLongestQueue + 1h).count();
  EXPECT_EQ(own_.next_turn(t(1us), t(5us)), t(5us));
  expect_interval(own_.serve(t(1us), t(3us), 4us), 3us, 7us, 4us);
  EXPECT_EQ(tail(), t(7us));
}

}  // namespace
}  // namespace gpemu::device
