// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/rendezvous.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

#include "layout.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

NodeConfig config(const std::string& name, std::size_t devices) {
  NodeConfig config{.name = name, .devices = {}, .temporary = true};
  config.devices.resize(devices, {.gpu = "TEST-GPU", .memory_bytes = kMiB});
  return config;
}

TimePoint moment_at(Duration time) {
  return TimePoint(time);
}

// ---- Ids

TEST(GroupId, IsReadAsItWasWritten) {
  const GroupId id{.key = 0xfedcba9876543210, .first_seat = 17, .parties = 4};
  EXPECT_EQ(GroupId::parse(id.to_string()).value(), id);
}

TEST(GroupId, RefusesOtherText) {
  for (const char* const text :
       {"", "-", "1-2", "1-2-3-4", "1-2-3 ", "x-1-2", "1--2", "1-2-99999999999", "-1-2-3"}) {
    EXPECT_EQ(GroupId::parse(text).error().code, ErrorCode::kInvalidArgument) << text;
  }
}

// ---- How long a thread waits

/// A clock whose threads are late, and which notes until when they wait.
class LateClock : public sim::Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return now_; }
  void wait_until(TimePoint deadline) override { now_ = std::max(now_, deadline); }
  void wait_for_change(const std::atomic<std::uint32_t>& /*word*/, std::uint32_t /*seen*/,
                       TimePoint deadline) override {
    waited_until.push_back(deadline);
    now_ = deadline;
  }
  [[nodiscard]] bool runs_by_itself() const override { return false; }
  [[nodiscard]] Duration lead() const override { return 60us; }

  std::vector<TimePoint> waited_until;

 private:
  TimePoint now_{};
};

TEST(Rendezvous, AThreadLooksBeforeTheEndWhetherAllHaveCome) {
  LateClock clock;
  const std::shared_ptr<Node> node = Node::create_private(config("test", 1)).value();
  const auto device = Device::open(node, 0, clock).value();
  const auto stream = device->create_stream(StreamKind::kNonBlocking);
  const GroupId group = Rendezvous::create_group(*node, 2).value();
  const auto party = Rendezvous::join(node, group, 0, clock).value();
  const Moment round = party->arrive(*stream, 1ms).value();
  for (int i = 0; i < 2; ++i) round.wait_for_news(clock, round.news(), TimePoint::max());
  EXPECT_EQ(clock.waited_until, (std::vector{moment_at(700us), moment_at(940us)}));
}

// ---- Two parties in one process, on the virtual clock

class RendezvousTest : public testing::Test {
 protected:
  RendezvousTest() {
    for (int i = 0; i < 2; ++i) {
      devices_.push_back(Device::open(node_, i, clock_).value());
      streams_.push_back(devices_.back()->create_stream(StreamKind::kNonBlocking));
      parties_.push_back(Rendezvous::join(node_, group_, i, clock_).value());
    }
  }

  sim::VirtualClock clock_;
  std::shared_ptr<Node> node_ = Node::create_private(config("test", 2)).value();
  GroupId group_ = Rendezvous::create_group(*node_, 2).value();
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Rendezvous>> parties_;
};

TEST_F(RendezvousTest, ARoundEndsWhenTheLastHasComeAndTheLargestCostHasPassed) {
  streams_[0]->launch(10us);
  const Moment first = parties_[0]->arrive(*streams_[0], 5us).value();
  streams_[1]->launch(30us);
  const Moment second = parties_[1]->arrive(*streams_[1], 7us).value();
  first.wait(clock_);
  EXPECT_EQ(clock_.now(), moment_at(37us));
  EXPECT_TRUE(second.is_over(clock_.now()));
  EXPECT_EQ(second.time(), moment_at(37us));
}

TEST_F(RendezvousTest, WhatFollowsARoundIsOpenUntilAllHaveCome) {
  const Moment round = parties_[0]->arrive(*streams_[0], 5us).value();
  streams_[0]->launch(3us);
  Event after;
  streams_[0]->record(after);
  EXPECT_TRUE(round.is_open());
  EXPECT_TRUE(after.moment().is_open());
  EXPECT_EQ(after.moment().time(), TimePoint::max());
  EXPECT_FALSE(streams_[0]->idle());
  EXPECT_EQ(elapsed_time(after, after, clock_).error().code, ErrorCode::kNotReady);
  clock_.wait_until(moment_at(1s));
  EXPECT_FALSE(round.is_over(clock_.now()));
  ASSERT_TRUE(parties_[1]->arrive(*streams_[1], 5us));
  EXPECT_FALSE(after.moment().is_open());
  EXPECT_EQ(after.moment().time(), moment_at(1s + 8us));
}

TEST_F(RendezvousTest, WorkThatTakesNoTimeBetweenRoundsCanBePutOff) {
  const GroupId alone = Rendezvous::create_group(*node_, 1).value();
  const auto party = Rendezvous::join(node_, alone, 0, clock_).value();
  ASSERT_TRUE(party->arrive(*streams_[0], 14us));
  streams_[0]->copy(Engine::kCopyHostToDevice, 1, 0us);
  const Moment second = party->arrive(*streams_[0], 5us).value();
  clock_.wait_until(moment_at(5us));
  // Its copy engine is busy when the first round ends.
  devices_[0]->create_stream(StreamKind::kNonBlocking)->copy(Engine::kCopyHostToDevice, 1, 20us);
  second.wait(clock_);
  EXPECT_EQ(clock_.now(), moment_at(5us + 20us + 5us));
}

TEST_F(RendezvousTest, ARoundWithAnOpenEndEndsWhenWhatIsOutsideHas) {
  std::vector<OpenEnd> outside(2);
  std::vector<RoundTimes> begun, ended(2);
  std::vector<Moment> ends;
  for (const std::size_t i : {0, 1}) {
    streams_[i]->launch(10us * (i + 1));
    ends.push_back(parties_[i]
                       ->arrive_open(
                           *streams_[i], 5us,
                           [&, i](const RoundTimes& times, const OpenEnd& end) {
                             begun.push_back(times);
                             outside[i] = end;
                           },
                           [&, i](const RoundTimes& times) { ended[i] = times; })
                       .value());
    streams_[i]->launch(1us);
  }
  clock_.wait_until(moment_at(100us));
  EXPECT_FALSE(ends[0].is_over(clock_.now()));
  ASSERT_EQ(begun.size(), 2U);
  EXPECT_EQ(begun[0].start, moment_at(20us));
  EXPECT_EQ(begun[0].end, moment_at(25us));
  EXPECT_TRUE(ends[0].is_open());
  outside[0].end(begun[0].end);
  EXPECT_FALSE(ends[0].is_over(clock_.now()));
  clock_.wait_until(moment_at(200us));
  outside[1].end(moment_at(210us));
  outside[1].end(moment_at(999us));
  streams_[0]->synchronize();
  // Rounds take at least a nanosecond.
  EXPECT_EQ(clock_.now(), moment_at(211us + 1ns));
  EXPECT_EQ(ends[1].time(), moment_at(210us + 1ns));
  EXPECT_EQ(ended[0].arrived, moment_at(10us));
  EXPECT_EQ(ended[0].start, moment_at(20us));
  EXPECT_EQ(ended[0].end, moment_at(210us + 1ns));
}

TEST_F(RendezvousTest, APartyWithNothingOutsideWaitsForTheOthers) {
  OpenEnd outside;
  const Moment first =
      parties_[0]
          ->arrive_open(*streams_[0], 5us,
                        [&](const RoundTimes&, const OpenEnd& end) { outside = end; })
          .value();
  const Moment second = parties_[1]->arrive_open(*streams_[1], 1s, nullptr).value();
  clock_.wait_until(moment_at(2s));
  EXPECT_FALSE(second.is_over(clock_.now()));
  outside.end(moment_at(5us));
  EXPECT_EQ(second.time(), moment_at(2s + 1ns));
  EXPECT_EQ(first.time(), second.time());
}

TEST_F(RendezvousTest, ARoundEndsForNobodyIfPartiesDoSomethingElse) {
  const Moment first = parties_[0]->arrive(*streams_[0], 5us, {}, {.pattern = 1}).value();
  const Moment second = parties_[1]->arrive(*streams_[1], 5us, {}, {.pattern = 2}).value();
  clock_.wait_until(moment_at(1s));
  EXPECT_TRUE(first.is_open());
  EXPECT_TRUE(second.is_open());
  ASSERT_TRUE(parties_[0]->abort());
  EXPECT_EQ(first.time(), moment_at(1s));
  streams_[0]->synchronize();
  EXPECT_TRUE(second.is_open()) << "the other one does not take it for an end";
  ASSERT_TRUE(parties_[1]->abort());
  streams_[1]->synchronize();
}

class UnequalRendezvousTest : public RendezvousTest {
 protected:
  /// Expects that a round ends only for the party that needs less, and the next one for nobody.
  void expect_end_beside_more(const RoundWork& less) {
    const RoundWork more{.pattern = 1, .width = 2, .gives = 3, .needs = 3};
    const Moment stuck = parties_[0]->arrive(*streams_[0], 5us, {}, more).value();
    // It says early when it would arrive at the next round.
    const Moment later = parties_[0]->arrive(*streams_[0], 5us, {}, more).value();
    const Moment ends = parties_[1]->arrive(*streams_[1], 7us, {}, less).value();
    streams_[1]->synchronize();
    EXPECT_EQ(ends.time(), moment_at(7us));
    const Moment next = parties_[1]->arrive(*streams_[1], 7us, {}, more).value();
    clock_.wait_until(moment_at(1s));
    EXPECT_TRUE(stuck.is_open());
    EXPECT_TRUE(later.is_open());
    EXPECT_TRUE(next.is_open());
    for (const auto& party : parties_) ASSERT_TRUE(party->abort());
  }
};

TEST_F(UnequalRendezvousTest, EndsForThePartyThatNeedsLess) {
  expect_end_beside_more({.pattern = 1, .width = 2, .gives = 2, .needs = 2});
}

TEST_F(UnequalRendezvousTest, EndsForThePartyThatIsNarrower) {
  expect_end_beside_more({.pattern = 1, .width = 1, .gives = 3, .needs = 3});
}

TEST_F(RendezvousTest, AnAbortEndsWhatIsOutside) {
  OpenEnd outside;
  const auto begin = [&](const RoundTimes&, const OpenEnd& end) { outside = end; };
  const Moment first = parties_[0]->arrive_open(*streams_[0], 5us, begin).value();
  const Moment next = parties_[0]->arrive_open(*streams_[0], 5us, begin).value();
  const Moment second = parties_[1]->arrive_open(*streams_[1], 5us, nullptr).value();
  clock_.wait_until(moment_at(10us));
  EXPECT_TRUE(first.is_open());
  ASSERT_TRUE(parties_[0]->abort());
  EXPECT_EQ(first.time(), moment_at(10us));
  EXPECT_EQ(next.time(), moment_at(10us));
  streams_[0]->synchronize();
  outside.end(moment_at(20us));
  EXPECT_EQ(first.time(), moment_at(10us));
  // The other one does not take it for an arrival.
  EXPECT_TRUE(second.is_open());
  EXPECT_EQ(parties_[1]->check().error().code, ErrorCode::kUnavailable);
}

TEST_F(RendezvousTest, AnObserverLearnsTheTimesOfARound) {
  std::vector<RoundTimes> first, second;
  streams_[0]->launch(10us);
  ASSERT_TRUE(parties_[0]->arrive(*streams_[0], 5us,
                                  [&](const RoundTimes& times) { first.push_back(times); }));
  clock_.wait_until(moment_at(20us));
  EXPECT_TRUE(first.empty());
  streams_[1]->launch(30us);
  ASSERT_TRUE(parties_[1]->arrive(*streams_[1], 7us,
                                  [&](const RoundTimes& times) { second.push_back(times); }));
  streams_[0]->synchronize();
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(first[0].arrived, moment_at(10us));
  EXPECT_EQ(second[0].arrived, moment_at(50us));
  for (const RoundTimes& times : {first[0], second[0]}) {
    EXPECT_EQ(times.start, moment_at(50us));
    EXPECT_EQ(times.end, moment_at(57us));
    EXPECT_EQ(times.last, 1U);
  }
}

TEST_F(RendezvousTest, NothingIsToldOfARoundThatIsAborted) {
  bool told = false;
  ASSERT_TRUE(parties_[0]->arrive(*streams_[0], 5us, [&told](const RoundTimes&) { told = true; }));
  ASSERT_TRUE(parties_[0]->abort());
  streams_[0]->synchronize();
  EXPECT_FALSE(told);
}

TEST_F(RendezvousTest, AnObserverLearnsTheFinalTimesOfWorkAfterARound) {
  std::vector<StartedWork> told;
  devices_[0]->observe([&told](const StartedWork& work) { told.push_back(work); });
  ASSERT_TRUE(parties_[0]->arrive(*streams_[0], 5us));
  const QueuedWork queued = streams_[0]->launch(3us);
  EXPECT_NE(queued.number, 0U);
  clock_.wait_until(moment_at(1s));
  ASSERT_TRUE(parties_[1]->arrive(*streams_[1], 5us));
  streams_[0]->synchronize();
  EXPECT_TRUE(streams_[0]->idle());
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].engine, Engine::kCompute);
  EXPECT_EQ(told[0].start, moment_at(1s + 5us));
  EXPECT_EQ(told[0].end, moment_at(1s + 8us));
  EXPECT_EQ(told[0].moved, queued.number);
  EXPECT_EQ(streams_[0]->launch(3us).number, 0U) << "it starts at once";
}

TEST_F(RendezvousTest, OtherStreamsGoOnMeanwhile) {
  ASSERT_TRUE(parties_[0]->arrive(*streams_[0], 5us));
  streams_[0]->launch(3us);
  const auto other = devices_[0]->create_stream(StreamKind::kNonBlocking);
  other->launch(20us);
  other->synchronize();
  EXPECT_EQ(clock_.now(), moment_at(20us));
}

TEST_F(RendezvousTest, RoundsInARowEndOneAfterTheOther) {
  std::vector<Moment> rounds;
  for (int i = 0; i < 100; ++i) {
    rounds.push_back(parties_[0]->arrive(*streams_[0], 2us).value());
  }
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(parties_[1]->arrive(*streams_[1], 2us));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rounds[i].time(), moment_at((i + 1) * 2us));
}

TEST_F(RendezvousTest, APartyThatLeavesFailsTheOthers) {
  const Moment round = parties_[0]->arrive(*streams_[0], 5us).value();
  ASSERT_TRUE(parties_[0]->check());
  parties_[1].reset();
  const auto failed = parties_[0]->check();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(failed.error().message.find("party 1 of a group of 2"), std::string::npos)
      << failed.error().message;
  EXPECT_EQ(parties_[0]->wait(round).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(parties_[0]->arrive(*streams_[0], 5us).error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(round.is_open());
}

TEST_F(RendezvousTest, AbortEndsOpenRoundsAndWhatFollowsRuns) {
  const Moment round = parties_[0]->arrive(*streams_[0], 5us).value();
  streams_[0]->launch(3us);
  clock_.wait_until(moment_at(50us));
  ASSERT_TRUE(parties_[0]->abort());
  EXPECT_TRUE(round.is_over(clock_.now()));
  streams_[0]->synchronize();
  EXPECT_EQ(clock_.now(), moment_at(53us));
  EXPECT_EQ(parties_[0]->arrive(*streams_[0], 5us).error().code, ErrorCode::kUnavailable);
}

TEST_F(RendezvousTest, WaitsNoLongerThanItsTimeout) {
  const Moment round = parties_[0]->arrive(*streams_[0], 5us).value();
  EXPECT_EQ(parties_[0]->wait(round, 1ms).error().code, ErrorCode::kNotReady);
  ASSERT_TRUE(parties_[1]->arrive(*streams_[1], 5us));
  EXPECT_TRUE(parties_[0]->wait(round, 10s));
}

TEST_F(RendezvousTest, RefusesAStreamOfAnotherNode) {
  const auto other = Node::create_private(config("other", 1)).value();
  const auto device = Device::open(other, 0, clock_).value();
  EXPECT_EQ(parties_[0]->arrive(device->default_stream(), 1us).error().code,
            ErrorCode::kInvalidArgument);
}

TEST_F(RendezvousTest, WorkBehindAnOpenRoundLeavesTheEngineToOthers) {
  ASSERT_TRUE(parties_[0]->arrive(*streams_[0], 5us));
  streams_[0]->launch(1s);
  EXPECT_EQ(node_->device_snapshot(0, clock_.now()).processes.size(), 1);
  const auto other = devices_[0]->create_stream(StreamKind::kNonBlocking);
  EXPECT_EQ(other->launch(1us).expected.start, moment_at(0us));
}

TEST_F(RendezvousTest, AskingManyTimesForWhatIsOpenKeepsNothing) {
  const auto blocking = devices_[0]->create_stream();
  ASSERT_TRUE(parties_[0]->arrive(*blocking, 5us));
  Event last;
  for (int i = 0; i < 10000; ++i) {
    EXPECT_FALSE(devices_[0]->default_stream().idle());
    devices_[0]->default_stream().record(last);
  }
  ASSERT_TRUE(parties_[1]->arrive(*streams_[1], 5us));
  EXPECT_EQ(last.moment().time(), moment_at(5us));
}

// ---- Seats

TEST_F(RendezvousTest, ASeatIsTakenOnce) {
  EXPECT_EQ(Rendezvous::join(node_, group_, 1, clock_).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Rendezvous::join(node_, group_, 2, clock_).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Rendezvous::join(node_, group_, -1, clock_).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(RendezvousTest, AGroupThatAllHaveLeftIsGone) {
  parties_.clear();
  EXPECT_EQ(Rendezvous::join(node_, group_, 0, clock_).error().code, ErrorCode::kNotFound);
  GroupId wrong = Rendezvous::create_group(*node_, 2).value();
  ++wrong.key;
  EXPECT_EQ(Rendezvous::join(node_, wrong, 0, clock_).error().code, ErrorCode::kNotFound);
  wrong.first_seat = ~0U;
  EXPECT_EQ(Rendezvous::join(node_, wrong, 0, clock_).error().code, ErrorCode::kNotFound);
}

TEST_F(RendezvousTest, AGroupHasAsManyPartiesAsANodeHasSeats) {
  const auto most = static_cast<int>(layout::kSeatCapacity);
  EXPECT_EQ(Rendezvous::create_group(*node_, 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Rendezvous::create_group(*node_, most + 1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Rendezvous::create_group(*node_, most).error().code, ErrorCode::kResourceLimit);
  parties_.clear();
  EXPECT_TRUE(Rendezvous::create_group(*node_, most));
}

// ---- Processes

class ProcessesTest : public testing::Test {
 protected:
  ProcessesTest() {
    std::string name = std::filesystem::temp_directory_path() / "gpemu-rendezvous-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~ProcessesTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(ProcessesTest, SeatsOfProcessesThatHaveEndedAreFreeAgain) {
  const auto node = Node::create(config("test", 1), folder_).value();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto own = Node::open("test", folder_).value();
    std::_Exit(Rendezvous::create_group(*own, layout::kSeatCapacity) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(Rendezvous::create_group(*node, layout::kSeatCapacity));
}

TEST_F(ProcessesTest, AForkedChildIsRefusedAndChangesNothing) {
  sim::VirtualClock clock;
  const auto node = Node::create(config("test", 1), folder_).value();
  const auto device = Device::open(node, 0, clock).value();
  const auto stream = device->create_stream(StreamKind::kNonBlocking);
  const GroupId group = Rendezvous::create_group(*node, 1).value();
  const auto party = Rendezvous::join(node, group, 0, clock).value();
  pid_t child = 0;
  // An observer is called under the schedule's lock, so the child inherits it taken.
  device->observe([&](const StartedWork&) {
    child = ::fork();
    if (child != 0) return;
    ::alarm(60);  // Ends a child that waits for the lock.
    const bool refused = party->abort().error().code == ErrorCode::kUnavailable &&
                         party->statistics().error().code == ErrorCode::kUnavailable &&
                         party->check().error().code == ErrorCode::kUnavailable;
    std::_Exit(refused ? 0 : 1);
  });
  stream->launch(1us);
  device->observe({});
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(party->arrive(*stream, 5us).value().time(), moment_at(6us));
}

TEST_F(ProcessesTest, TwoAttachmentsOnTheRealClockSeeTheSameEnds) {
  constexpr int kRounds = 200;
  sim::RealClock clock;
  std::vector<std::shared_ptr<Node>> nodes{Node::create(config("test", 2), folder_).value(),
                                           Node::open("test", folder_).value()};
  const GroupId group = Rendezvous::create_group(*nodes[0], 2).value();
  std::vector<std::vector<TimePoint>> ends(2);
  {
    std::vector<std::jthread> threads;
    for (int seat = 0; seat < 2; ++seat) {
      threads.emplace_back([&, seat] {
        const auto device = Device::open(nodes[seat], seat, clock).value();
        const auto party = Rendezvous::join(nodes[seat], group, seat, clock).value();
        const auto stream = device->create_stream(StreamKind::kNonBlocking);
        std::vector<Moment> rounds;
        for (int i = 0; i < kRounds; ++i) {
          if (i % 3 == seat) stream->launch(50us);
          rounds.push_back(party->arrive(*stream, 10us).value());
        }
        ASSERT_TRUE(party->wait(rounds.back(), 60s));
        for (const Moment& round : rounds) ends[seat].push_back(round.time());
      });
    }
  }
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_EQ(ends[0].size(), kRounds);
}

/// What a survivor found.
struct Found {
  std::atomic<bool> joined;
  std::atomic<std::int64_t> rounds;
  std::atomic<std::int64_t> failed_ns;  ///< when, on the host's clock.
};

/// A process that meets the others again and again until that fails. Exits with 0 then.
[[noreturn]] void meet(const std::filesystem::path& folder, const GroupId& group, int seat,
                       std::uint64_t seed, Found& found) {
  sim::RealClock clock(Duration::zero());
  sim::Rng random(seed, seat);
  const auto node = Node::open("test", folder).value();
  const auto device = Device::open(node, 0, clock).value();
  const auto party = Rendezvous::join(node, group, seat, clock).value();
  const auto stream = device->create_stream(StreamKind::kNonBlocking);
  found.joined = true;
  while (true) {
    if (random.below(2) == 0) {
      stream->launch(Duration(static_cast<std::int64_t>(random.below(100'000))));
    }
    const auto round = party->arrive(*stream, Duration(1 + random.below(50'000)));
    const auto waited = round ? party->wait(*round, 10s) : std::unexpected(round.error());
    if (!waited) {
      found.failed_ns = to_ns(clock.now());
      std::_Exit(waited.error().code == ErrorCode::kUnavailable ? 0 : 2);
    }
    ++found.rounds;
  }
}

TEST_F(ProcessesTest, SurvivorsOfAKillGetAnErrorAndNothingIsLeft) {
  const char* const wanted = std::getenv("GPEMU_TEST_KILLS");
  const int kills = wanted == nullptr ? 40 : std::atoi(wanted);
  constexpr int kMost = 8;
  void* const shared = ::mmap(nullptr, sizeof(Found) * kMost, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const found = static_cast<Found*>(shared);
  sim::RealClock clock(Duration::zero());
  sim::Rng random(4711);
  std::vector<Duration> delays;
  std::int64_t rounds = 0;
  const auto node = Node::create(config("test", 1), folder_).value();
  for (int kill = 0; kill < kills; ++kill) {
    const int parties = 2 + static_cast<int>(random.below(kMost - 1));
    const GroupId group = Rendezvous::create_group(*node, parties).value();
    std::vector<pid_t> children;
    for (int seat = 0; seat < parties; ++seat) {
      found[seat].joined = false;
      found[seat].rounds = 0;
      found[seat].failed_ns = 0;
      const pid_t child = ::fork();
      if (child == 0) meet(folder_, group, seat, static_cast<std::uint64_t>(kill), found[seat]);
      children.push_back(child);
    }
    const auto victim = static_cast<std::size_t>(random.below(children.size()));
    // Whoever made the group answers for a seat that nobody has taken.
    while (!found[victim].joined) std::this_thread::yield();
    clock.wait_until(clock.now() + std::chrono::microseconds(random.below(20'000)));
    const TimePoint killed = clock.now();
    ASSERT_EQ(::kill(children[victim], SIGKILL), 0);
    for (std::size_t seat = 0; seat < children.size(); ++seat) {
      int status = 0;
      ASSERT_EQ(::waitpid(children[seat], &status, 0), children[seat]);
      if (seat == victim) continue;
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
      delays.push_back(at_ns(found[seat].failed_ns) - killed);
      rounds += found[seat].rounds;
    }
  }
  // All seats are free again.
  EXPECT_TRUE(Rendezvous::create_group(*node, layout::kSeatCapacity));
  EXPECT_GT(rounds, 0);
  std::ranges::sort(delays);
  const auto ms = [](Duration time) { return static_cast<double>(time.count()) / 1e6; };
  fmt::print(
      "{} kills, {} rounds; survivors got the error after {:.1f} ms in the median, {:.1f} "
      "ms at most\n",
      kills, rounds, ms(delays[delays.size() / 2]), ms(delays.back()));
  ::munmap(shared, sizeof(Found) * kMost);
}

}  // namespace
}  // namespace gpemu::device
