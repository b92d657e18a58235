// SPDX-License-Identifier: Apache-2.0
#include "settler.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "device_sharing.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

/// A look that does what the test says, and remembers when it was called.
class Looks {
 public:
  /// Makes the next look return that.
  void then(Schedule::NextLook next) { next_.push_back(next); }
  [[nodiscard]] Settler::Look look() {
    return [this](TimePoint now, bool) {
      const std::lock_guard lock(mutex_);
      times_.push_back(now);
      changed_.notify_all();
      return times_.size() <= next_.size() ? next_[times_.size() - 1] : Schedule::NextLook();
    };
  }
  /// Returns when it was called, once that is so many times.
  [[nodiscard]] std::vector<TimePoint> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 60s, [&] { return times_.size() >= count; });
    return times_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Schedule::NextLook> next_;
  std::vector<TimePoint> times_;
};

class SettlerTest : public testing::Test {
 protected:
  void ring() {
    ++own_.bell;
    sim::wake_all(own_.bell);
  }

  sim::VirtualClock clock_;
  layout::ProcessRecord own_{};
  Looks looks_;
};

using Times = std::vector<TimePoint>;

TEST_F(SettlerTest, LooksWhenTheLastLookSaid) {
  looks_.then({.time = TimePoint(5ms)});
  looks_.then({.time = TimePoint(9ms)});
  const Settler settler(looks_.look(), own_, clock_);
  EXPECT_EQ(looks_.wait_for(3), (Times{TimePoint(), TimePoint(5ms), TimePoint(9ms)}));
}

TEST_F(SettlerTest, LooksWhenTheBellRings) {
  const Settler settler(looks_.look(), own_, clock_);
  for (std::size_t looks = 1; looks <= 100; ++looks) {
    ASSERT_GE(looks_.wait_for(looks).size(), looks);
    ring();
  }
}

TEST_F(SettlerTest, CallsAFunctionAfterEachLook) {
  std::atomic<int> calls{0};
  const Settler settler(looks_.look(), own_, clock_, [&calls] { ++calls; });
  while (calls == 0) std::this_thread::yield();
  EXPECT_EQ(looks_.wait_for(1).size(), 1U);
  ring();
  while (calls == 1) std::this_thread::yield();
  EXPECT_EQ(looks_.wait_for(2).size(), 2U);
  EXPECT_EQ(calls, 2);
}

TEST_F(SettlerTest, HearsTheBellThatRingsBeforeTheThreadRuns) {
  std::atomic<bool> has_heard{false};
  const Settler settler(
      [&has_heard, look = looks_.look()](TimePoint now, bool has_rung) {
        if (has_rung) has_heard = true;
        return look(now, has_rung);
      },
      own_, clock_);
  ring();
  while (!has_heard) std::this_thread::yield();
}

TEST_F(SettlerTest, LooksOnceMoreAfterItHasSaidThatItListens) {
  // Another process that comes between the first look and that does not ring.
  looks_.then({.listens = true});
  looks_.then({.listens = true});
  {
    const Settler settler(looks_.look(), own_, clock_);
    EXPECT_EQ(looks_.wait_for(2).size(), 2U);
    EXPECT_EQ(own_.listening, 1U);
  }
  EXPECT_EQ(looks_.wait_for(2).size(), 2U) << "then it waits for its bell";
}

TEST_F(SettlerTest, DoesNotListenIfNothingIsToBeHeard) {
  {
    const Settler settler(looks_.look(), own_, clock_);
    static_cast<void>(looks_.wait_for(1));
  }
  EXPECT_EQ(own_.listening, 0U);
}

TEST_F(SettlerTest, GetsNoSignalsOfTheProgram) {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  {
    const Settler settler(
        [&blocked, look = looks_.look()](TimePoint now, bool has_rung) {
          ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
          return look(now, has_rung);
        },
        own_, clock_);
    static_cast<void>(looks_.wait_for(1));
  }
  EXPECT_EQ(::sigismember(&blocked, SIGINT), 1);
  EXPECT_EQ(::sigismember(&blocked, SIGTERM), 1);
}

TEST_F(SettlerTest, SaysHowMuchCpuTimeItHasUsed) {
  constexpr std::int64_t kUsed = 2'000'000;
  Settler settler(
      [look = looks_.look()](TimePoint now, bool has_rung) {
        timespec used{};
        while (used.tv_sec == 0 && used.tv_nsec < kUsed) {
          ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
        }
        return look(now, has_rung);
      },
      own_, clock_);
  ASSERT_EQ(looks_.wait_for(1).size(), 1U);
  EXPECT_GE(settler.cpu_time(), Duration(kUsed));
}

/// A process with a stream and a party, whose group has another party.
class LookAtTest : public testing::Test {
 protected:
  LookAtTest() {
    lane_.group->legacy = &lane_;
    seats_[0].owner = seats_[1].owner = kOwner;
    const Lock lock(schedule_.mutex);
    schedule_.add(lane_.group);
    schedule_.add(party_, clock_);
  }
  ~LookAtTest() override {
    const Lock lock(schedule_.mutex);
    schedule_.remove(party_);
  }
  void launch(Duration cost) {
    const Lock lock(schedule_.mutex);
    schedule_.queue(lane_, 0, TimePoint(), cost, 0);
  }
  Moment arrive(TimePoint now, Duration cost) {
    const Lock lock(schedule_.mutex);
    Moment end = schedule_.arrive(party_, lane_, now, {.cost = cost});
    if (schedule_.take_owed_ring()) schedule_.ring_settler();
    return end;
  }

  std::vector<DeviceEngines> devices() {
    std::vector<DeviceEngines> devices;
    devices.push_back({.sharing = make_sharing(SharingPolicy::kFifo, engines_, holding_,
                                               [](std::size_t, TimePoint, std::int64_t) {}),
                       .records = engines_,
                       .own = &holding_});
    return devices;
  }

  static constexpr std::uint64_t kOwner = 7;
  layout::ProcessRecord own_{};
  std::array<layout::EngineRecord, kEngineCount> engines_{};
  layout::HoldingRecord holding_{};
  std::array<layout::SeatRecord, 2> seats_{};
  Lane lane_ = Lane(std::make_shared<LaneGroup>());
  Party party_{seats_, 0};
  Party other_{seats_, 1};
  Schedule schedule_{
      devices(),
      {.own = &own_,
       .process = [this](std::uint64_t) -> layout::ProcessRecord& { return own_; },
       .can_come = [](const layout::SeatRecord& seat) { return seat.owner == kOwner; }}};
  sim::VirtualClock clock_;
  Settler::Look look_at_ = look_at(schedule_);
  Schedule::NextLook look(TimePoint now) { return look_at_(now, false); }
};

TEST_F(LookAtTest, WithoutRoundsThereIsNothingToDo) {
  EXPECT_EQ(look(TimePoint(1s)).time, TimePoint::max());
}

TEST_F(LookAtTest, ARoundGetsItsEndWithoutAnybodyElseLooking) {
  launch(30us);
  const Moment round = arrive(TimePoint(), 5us);
  EXPECT_EQ(look(TimePoint(10us)).time, TimePoint(20ms)) << "there is nothing to publish";
  const std::uint32_t news = schedule_.news.count();
  other_.add().cost = 7us;
  other_.publish({.time = TimePoint(10us)}, TimePoint(10us));
  EXPECT_EQ(look(TimePoint(12us)).time, TimePoint::max()) << "nothing is open";
  EXPECT_NE(schedule_.news.count(), news);
  EXPECT_EQ(round.time(), TimePoint(37us));
}

TEST_F(LookAtTest, AThreadThatDoesNotPlanToLookIsCalledForANewRound) {
  EXPECT_EQ(look(TimePoint(1s)).time, TimePoint::max());
  own_.listening = 1;  // It listened for the rounds before.
  const std::uint32_t bell = own_.bell;
  static_cast<void>(arrive(TimePoint(1s), 5us));
  EXPECT_EQ(own_.bell, bell + 1);
  static_cast<void>(arrive(TimePoint(1s), 5us));
  EXPECT_EQ(own_.bell, bell + 1) << "it has not looked yet";
  EXPECT_EQ(look(TimePoint(1s + 1ms)).time, TimePoint(1s + 20ms));
}

TEST_F(LookAtTest, AThreadGoesOnForAWhileSoThatTheNextRoundNeedNotCallIt) {
  const auto run_round = [this](TimePoint now) {
    static_cast<void>(arrive(now, 5us));
    other_.add().cost = 5us;
    other_.publish({.time = now}, now);
  };
  run_round(TimePoint(1s));
  EXPECT_EQ(look(TimePoint(1s + 1ms)).time, TimePoint(1s + 21ms)) << "though nothing is open";
  const std::uint32_t bell = own_.bell;
  run_round(TimePoint(1s + 2ms));
  EXPECT_EQ(own_.bell, bell);
  EXPECT_EQ(look(TimePoint(1s + 21ms)).time, TimePoint(1s + 41ms));
  EXPECT_EQ(look(TimePoint(1s + 41ms)).time, TimePoint::max()) << "no round has come since";
}

TEST_F(LookAtTest, AProcessIsRungForTheRoundForWhichItsThreadsWait) {
  constexpr std::uint64_t kOther = 8;
  seats_[1].owner = kOther;
  layout::ProcessRecord other_own{};
  Lane other_lane(std::make_shared<LaneGroup>());
  other_lane.group->legacy = &other_lane;
  Schedule other(devices(), {.own = &other_own,
                             .process = [&](std::uint64_t identity) -> layout::ProcessRecord& {
                               return identity == kOther ? other_own : own_;
                             },
                             .can_come = [](const layout::SeatRecord&) { return true; }});
  const auto let_other_come = [&] {
    const Lock lock(other.mutex);
    static_cast<void>(other.arrive(other_, other_lane, TimePoint(1ms), {.cost = 5us}));
    static_cast<void>(other.take_owed_ring());
  };
  {
    const Lock lock(other.mutex);
    other.add(other_lane.group);
    other.add(other_, clock_);
  }
  for (int i = 0; i < 3; ++i) static_cast<void>(arrive(TimePoint(), 5us));
  std::optional<News::Waiting> waiting;
  {
    const Lock lock(schedule_.mutex);
    const Mark* const second = party_.rounds()[1].mark.get();
    waiting.emplace(schedule_.news, second);
    EXPECT_TRUE(schedule_.plan_wait(TimePoint(1ms), second).listens);
  }
  EXPECT_EQ(own_.listening, 1U) << "no other thread must be woken for that";
  const std::uint32_t bell = own_.bell;
  let_other_come();
  EXPECT_EQ(own_.bell, bell) << "the first round is not what it waits for";
  let_other_come();
  EXPECT_EQ(own_.bell, bell + 1);
  EXPECT_EQ(own_.listening, 0U);
  const Lock lock(other.mutex);
  other.remove(other_);
}

TEST_F(LookAtTest, ADeadPartyIsNoticedWithin20Milliseconds) {
  static_cast<void>(look(TimePoint(1s)));
  const Moment round = arrive(TimePoint(1s), 5us);
  seats_[1].owner = layout::left(seats_[1].key);
  EXPECT_EQ(look(TimePoint(1s + 1ms)).time, TimePoint(1s + 20ms));
  static_cast<void>(look(TimePoint(1s + 10ms) - 1ns));
  EXPECT_EQ(party_.failed(), nullptr);
  EXPECT_EQ(look(TimePoint(1s + 10ms)).time, TimePoint(1s + 30ms));
  EXPECT_EQ(party_.failed(), &seats_[1]);
}

TEST_F(LookAtTest, APartyThatCameBeforeItLeftIsNotMissed) {
  launch(30ms);
  const Moment round = arrive(TimePoint(), 5ms);
  other_.add().cost = 5ms;
  other_.publish({.time = TimePoint(40ms), .is_final = false}, TimePoint());
  seats_[1].owner = layout::left(seats_[1].key);
  clock_.wait_until(TimePoint(42ms));
  static_cast<void>(look(TimePoint(35ms)));  // It read the clock before the party left.
  EXPECT_EQ(party_.failed(), nullptr);
  EXPECT_EQ(round.time(), TimePoint(45ms));
}

TEST_F(LookAtTest, APartyThatHasFailedCanLeaveLate) {
  launch(30ms);
  static_cast<void>(arrive(TimePoint(), 5ms));
  static_cast<void>(arrive(TimePoint(), 5ms));
  other_.add().cost = 5ms;
  other_.publish({.time = TimePoint(40ms), .is_final = false}, TimePoint());
  seats_[1].owner = layout::left(seats_[1].key);
  static_cast<void>(look(TimePoint(35ms)));
  ASSERT_EQ(party_.failed(), &seats_[1]);
  const Lock lock(schedule_.mutex);
  schedule_.abort(party_, TimePoint(60ms));
  EXPECT_TRUE(party_.rounds().empty());
}

}  // namespace
}  // namespace gpemu::device
