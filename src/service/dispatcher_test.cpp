// SPDX-License-Identifier: Apache-2.0
#include "gpemu/service/dispatcher.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

namespace gpemu::service {
namespace {

using namespace std::chrono_literals;
using Answer = Dispatcher::Answer;

constexpr std::uint32_t kSamples = 10;

std::vector<std::uint32_t> count_up(std::uint64_t /*seed*/, std::uint64_t epoch) {
  std::vector<std::uint32_t> order(kSamples);
  std::iota(order.begin(), order.end(), 0U);
  if (epoch % 2 == 1) std::ranges::reverse(order);
  return order;
}

TimePoint at(Duration time) {
  return TimePoint(time);
}

class DispatcherTest : public testing::Test {
 protected:
  Dispatcher::Work work(std::uint64_t worker, std::uint64_t job, Duration now) {
    return dispatcher.work(worker, job, at(now)).value();
  }
  Dispatcher dispatcher{count_up};
  const JobSettings settings{.batch = 4, .epochs = 2};
};

TEST_F(DispatcherTest, TakesNoMoreThanItsLimits) {
  EXPECT_EQ(dispatcher.join(std::string(257, 'a'), at(0s)).error().code,
            ErrorCode::kInvalidArgument);
  for (std::size_t i = 0; i < kMostWorkers; ++i) ASSERT_TRUE(dispatcher.join("a:1", at(0s)));
  EXPECT_EQ(dispatcher.join("a:1", at(3s)).error().code, ErrorCode::kResourceLimit);
  EXPECT_TRUE(dispatcher.join("a:1", at(3s + 1ns))) << "the others have died";
  EXPECT_EQ(dispatcher.open(std::string(257, 'a'), settings, at(3s)).error().code,
            ErrorCode::kInvalidArgument);
  for (std::size_t i = 0; i < kMostJobs; ++i) {
    ASSERT_TRUE(dispatcher.open(fmt::format("job {}", i), settings, at(3s)));
  }
  EXPECT_EQ(dispatcher.open("", settings, at(3s)).error().code, ErrorCode::kResourceLimit);
  for (std::size_t i = kMostJobs; i < kMostClients; ++i) {
    ASSERT_TRUE(dispatcher.open("job 0", settings, at(3s)));
  }
  EXPECT_EQ(dispatcher.open("job 0", settings, at(13s)).error().code, ErrorCode::kResourceLimit);
  EXPECT_TRUE(dispatcher.open("job 0", settings, at(13s + 1ns))) << "the others have gone";
}

TEST_F(DispatcherTest, BatchesHaveAGibibyteAtMost) {
  EXPECT_EQ((JobSettings{.batch = 2, .crop = 10}.batch_bytes()), 2 * 3 * 10 * 10 * 4);
  // 2^30 bytes are 89,478,485 pixels.
  EXPECT_TRUE(check({.batch = 89, .crop = 1000}));
  EXPECT_FALSE(check({.batch = 90, .crop = 1000}));
  EXPECT_FALSE(check({.batch = 1 << 20, .crop = 4096}));
  EXPECT_FALSE(check({.batch = -1}));
  EXPECT_FALSE(check({.batch = 1, .crop = 4097}));
}

TEST_F(DispatcherTest, GivesEachSplitOfAnEpochOnce) {
  const auto worker = dispatcher.join("a:1", at(0s)).value();
  const auto opened = dispatcher.open("", settings, at(0s)).value();
  std::vector<std::vector<std::uint32_t>> splits;
  for (int i = 0; i < 3; ++i) splits.push_back(work(worker, opened.job, 0s).split.samples);
  EXPECT_EQ(splits, (std::vector<std::vector<std::uint32_t>>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}}));
  // The next epoch begins when this one has been received.
  EXPECT_EQ(work(worker, opened.job, 0s).answer, Answer::kWait);
  auto progress =
      dispatcher.follow(opened.job, opened.client, {.received = {2, 0, 1}}, at(0s)).value();
  EXPECT_FALSE(progress.ended);
  EXPECT_EQ(progress.workers.size(), 1);
  const auto next = work(worker, opened.job, 0s);
  EXPECT_EQ(next.split.epoch, 1);
  EXPECT_EQ(next.split.number, 3);
  EXPECT_EQ(next.split.samples, (std::vector<std::uint32_t>{9, 8, 7, 6}));
  static_cast<void>(work(worker, opened.job, 0s));
  static_cast<void>(work(worker, opened.job, 0s));
  progress = dispatcher.follow(opened.job, opened.client, {.received = {3, 4, 5}}, at(0s)).value();
  EXPECT_TRUE(progress.ended);
  EXPECT_EQ(work(worker, opened.job, 0s).answer, Answer::kEnded);
}

TEST_F(DispatcherTest, GivesWhatADeadWorkerHeldToOthers) {
  const auto dies = dispatcher.join("a:1", at(0s)).value();
  const auto lives = dispatcher.join("b:1", at(0s)).value();
  const auto opened = dispatcher.open("", settings, at(0s)).value();
  const auto lost = work(dies, opened.job, 0s).split;
  static_cast<void>(work(lives, opened.job, 2s));
  EXPECT_TRUE(dispatcher.beat(lives, at(3s)));
  // Nothing was heard of it for more than three seconds.
  const auto again = work(lives, opened.job, 3s + 1ns).split;
  EXPECT_EQ(again.number, lost.number);
  EXPECT_EQ(again.samples, lost.samples);
  EXPECT_EQ(dispatcher.beat(dies, at(4s)).error().code, ErrorCode::kNotFound);
}

TEST_F(DispatcherTest, BelievesAClientThatCannotReachAWorker) {
  const auto dies = dispatcher.join("a:1", at(0s)).value();
  const auto lives = dispatcher.join("b:1", at(0s)).value();
  const auto opened = dispatcher.open("", settings, at(0s)).value();
  const auto sent = work(dies, opened.job, 0s).split;
  const auto lost = work(dies, opened.job, 0s).split;
  const auto progress = dispatcher
                            .follow(opened.job, opened.client,
                                    {.received = {sent.number}, .dead_workers = {dies}}, at(0s))
                            .value();
  EXPECT_EQ(progress.workers.size(), 1);
  EXPECT_EQ(work(lives, opened.job, 0s).split.number, lost.number);
}

TEST_F(DispatcherTest, KeepsJobsApartAndSharesThoseOfOneName) {
  const auto worker = dispatcher.join("a:1", at(0s)).value();
  const auto first = dispatcher.open("train", settings, at(0s)).value();
  const auto second = dispatcher.open("train", settings, at(0s)).value();
  const auto other = dispatcher.open("other", settings, at(0s)).value();
  EXPECT_EQ(first.job, second.job);
  EXPECT_NE(first.client, second.client);
  EXPECT_NE(first.job, other.job);
  EXPECT_NE(dispatcher.open("", settings, at(0s))->job, dispatcher.open("", settings, at(0s))->job);
  EXPECT_EQ(dispatcher.beat(worker, at(0s))->size(), 4);
  EXPECT_EQ(work(worker, first.job, 0s).split.samples.front(), 0);
  EXPECT_EQ(work(worker, other.job, 0s).split.samples.front(), 0);
  JobSettings different = settings;
  different.seed = 1;
  EXPECT_EQ(dispatcher.open("train", different, at(0s)).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(DispatcherTest, PreparesAgainWhatWasOnItsWayToAClientThatDisappears) {
  const auto worker = dispatcher.join("a:1", at(0s)).value();
  const auto dies = dispatcher.open("train", settings, at(0s)).value();
  const auto lives = dispatcher.open("train", settings, at(0s)).value();
  for (int i = 0; i < 3; ++i) static_cast<void>(work(worker, dies.job, 0s));
  static_cast<void>(dispatcher.follow(lives.job, lives.client, {.received = {1}}, at(9s)));
  const auto next = dispatcher.join("b:1", at(11s)).value();
  std::set<std::uint64_t> again;
  for (int i = 0; i < 2; ++i) again.insert(work(next, lives.job, 11s).split.number);
  EXPECT_EQ(again, (std::set<std::uint64_t>{0, 2}));
  // Without clients, a job ends.
  EXPECT_EQ(dispatcher.beat(dispatcher.join("c:1", at(30s)).value(), at(30s))->size(), 0);
  EXPECT_FALSE(dispatcher.follow(lives.job, lives.client, {}, at(30s)));
}

TEST_F(DispatcherTest, RefusesJobsThatCannotBe) {
  for (const JobSettings& wrong :
       {JobSettings{.batch = 0}, JobSettings{.epochs = 0}, JobSettings{.crop = 0},
        JobSettings{.batch = 1 << 30}, JobSettings{.crop = 1 << 20}}) {
    EXPECT_FALSE(dispatcher.open("", wrong, at(0s)));
  }
}

TEST_F(DispatcherTest, WhoeverDiesEachSampleIsReceived) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    sim::Rng random(seed);
    Dispatcher fresh(count_up);
    const auto opened = fresh.open("", settings, at(0s)).value();
    std::map<std::uint64_t, std::vector<Split>> held;  // by living worker.
    std::multiset<std::pair<std::uint64_t, std::uint32_t>> received;
    std::set<std::uint64_t> numbers;
    Duration now{};
    bool ended = false;
    while (!ended) {
      now += 10ms;
      ASSERT_LT(now, 100s);
      if (held.size() < 3) held[fresh.join("w", at(now)).value()];
      for (auto& [worker, splits] : held) {
        const auto given = fresh.work(worker, opened.job, at(now)).value();
        if (given.answer == Answer::kSplit) splits.push_back(given.split);
      }
      Dispatcher::Report report;
      const auto chosen = std::next(held.begin(), static_cast<long>(random.below(held.size())));
      if (random.below(3) == 0) {
        report.dead_workers.push_back(chosen->first);
        held.erase(chosen);
      } else if (!chosen->second.empty()) {
        const Split split = chosen->second.front();
        chosen->second.erase(chosen->second.begin());
        report.received.push_back(split.number);
        if (numbers.insert(split.number).second) {
          for (const std::uint32_t sample : split.samples) received.emplace(split.epoch, sample);
        }
      }
      ended = fresh.follow(opened.job, opened.client, report, at(now))->ended;
    }
    ASSERT_EQ(received.size(), 2 * kSamples);
    ASSERT_EQ(std::set(received.begin(), received.end()).size(), 2 * kSamples);
  }
}

}  // namespace
}  // namespace gpemu::service
