// SPDX-License-Identifier: Apache-2.0
#include "device_sharing.hpp"

#include <array>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

constexpr std::size_t kEngine = 1;

TimePoint instant(Duration time) {
  return TimePoint(time);
}

/// Two processes that share a device first in, first out, with records in memory of the test.
class DeviceSharingTest : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<DeviceSharing> sharing_of(layout::HoldingRecord& own) {
    return make_sharing(SharingPolicy::kFifo, records_, own,
                        [this](std::size_t engine, TimePoint now, std::int64_t own_tail_ns) {
                          EXPECT_EQ(engine, kEngine);
                          EXPECT_EQ(Duration(own_tail_ns), own_tail_);
                          trimmed_.push_back(now.time_since_epoch());
                        });
  }
  /// Reserves time that may start at once.
  Reservation reserve(DeviceSharing& sharing, Duration now, Duration cost) {
    return sharing.reserve(kEngine, instant(now), instant(now), cost);
  }
  layout::EngineRecord& record() { return records_[kEngine]; }

  std::array<layout::EngineRecord, kEngineCount> records_{};
  layout::HoldingRecord own_holding_{};
  layout::HoldingRecord other_holding_{};
  Duration own_tail_{};            ///< as the process is expected to give it.
  std::vector<Duration> trimmed_;  ///< when work of dead processes was looked for.
  std::unique_ptr<DeviceSharing> own_ = sharing_of(own_holding_);
  std::unique_ptr<DeviceSharing> other_ = sharing_of(other_holding_);
};

TEST_F(DeviceSharingTest, EachTurnComesAfterAllThatWereReserved) {
  EXPECT_EQ(reserve(*own_, 0us, 10us).end, instant(10us));
  const Reservation second = reserve(*other_, 0us, 5us);
  EXPECT_EQ(second.start, instant(10us));
  EXPECT_EQ(second.end, instant(15us));
  EXPECT_EQ(reserve(*own_, 2us, 1us).start, instant(15us));
  EXPECT_EQ(Duration(record().tail_ns), 16us);
  EXPECT_EQ(Duration(own_holding_.engines[kEngine].tail_ns), 16us);
  EXPECT_EQ(Duration(other_holding_.engines[kEngine].tail_ns), 15us);
  EXPECT_EQ(Duration(records_[0].tail_ns), 0us) << "of another engine";
}

TEST_F(DeviceSharingTest, ATurnIncludesTheTimeBeforeTheWorkIsReady) {
  static_cast<void>(reserve(*other_, 0us, 10us));
  const Reservation turn = own_->reserve(kEngine, instant(0us), instant(25us), 5us);
  EXPECT_EQ(turn.start, instant(10us)) << "work that is ready earlier may use it";
  EXPECT_EQ(turn.end, instant(30us));
  EXPECT_EQ(layout::work_between(record(), 0, Duration(30us).count()), Duration(15us).count())
      << "the others see a gap";
}

TEST_F(DeviceSharingTest, TheNextTurnStartsAfterAllThatWereReserved) {
  static_cast<void>(reserve(*other_, 0us, 10us));
  EXPECT_EQ(own_->next_start(kEngine, instant(0us), instant(4us)), instant(10us));
  EXPECT_EQ(own_->next_start(kEngine, instant(0us), instant(14us)), instant(14us));
}

TEST_F(DeviceSharingTest, KnowsWhetherAnotherProcessComesAfterIt) {
  EXPECT_TRUE(own_->is_last(kEngine, instant(0us)));
  static_cast<void>(reserve(*own_, 0us, 10us));
  EXPECT_TRUE(own_->is_last(kEngine, instant(0us)));
  EXPECT_FALSE(other_->is_last(kEngine, instant(0us)));
  EXPECT_TRUE(other_->is_last(kEngine, instant(10us))) << "it has ended";
}

TEST_F(DeviceSharingTest, ATailThatNobodyCanHaveReservedIsIgnored) {
  record().tail_ns = (layout::kLongestQueue + 1h).count();
  EXPECT_EQ(own_->next_start(kEngine, instant(0us), instant(3us)), instant(3us));
  const Reservation turn = reserve(*own_, 0us, 10us);
  EXPECT_EQ(turn.start, instant(0us));
  EXPECT_EQ(turn.end, instant(10us));
  EXPECT_EQ(Duration(record().tail_ns), 10us);
}

TEST_F(DeviceSharingTest, BeforeALongWaitItLooksForDeadProcesses) {
  static_cast<void>(reserve(*other_, 0us, 9ms));
  static_cast<void>(reserve(*own_, 0us, 1us));
  EXPECT_TRUE(trimmed_.empty()) << "that is no long wait";
  static_cast<void>(reserve(*other_, 2ms, 20ms));
  own_tail_ = 9ms + 1us;
  static_cast<void>(own_->next_start(kEngine, instant(2ms), instant(2ms)));
  EXPECT_EQ(trimmed_, std::vector<Duration>{2ms});
  static_cast<void>(own_->next_start(kEngine, instant(2ms + 900us), instant(3ms)));
  EXPECT_EQ(trimmed_.size(), 1U) << "at most once a millisecond";
  static_cast<void>(own_->next_start(kEngine, instant(3ms), instant(3ms)));
  EXPECT_EQ(trimmed_, (std::vector<Duration>{2ms, 3ms}));
}

}  // namespace
}  // namespace gpemu::device
