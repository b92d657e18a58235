// SPDX-License-Identifier: Apache-2.0
#include "gpemu/streams/mover.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/mutex.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::streams {
namespace {

using Lane = Mover::Lane;

constexpr TimePoint at(int microseconds) {
  return TimePoint(std::chrono::microseconds(microseconds));
}
constexpr Access reads(std::uint64_t start, Bytes bytes) {
  return {.start = start, .bytes = bytes};
}
constexpr Access writes(std::uint64_t start, Bytes bytes) {
  return {.start = start, .bytes = bytes, .writes = true};
}

/// Notes in which order work was done.
class Log {
 public:
  Mover::Work entry(char name) {
    return [this, name] {
      const Lock lock(mutex_);
      text_ += name;
    };
  }
  std::string text() {
    const Lock lock(mutex_);
    return text_;
  }

 private:
  Mutex mutex_;
  std::string text_;
};

TEST(Overlap, OfManyRangesIsThatOfTheirPairs) {
  sim::Rng random(45);
  int overlapping = 0;
  for (int round = 0; round < 2000; ++round) {
    std::array<std::vector<Access>, 2> lists;
    bool expected = false;
    for (std::vector<Access>& list : lists) {
      for (int i = 0; i < 12; ++i) {
        list.push_back({.start = random.below(1000),
                        .bytes = random.below(12),
                        .writes = random.below(10) == 0});
      }
    }
    for (const Access& one : lists[0]) {
      for (const Access& other : lists[1]) {
        expected = expected || overlap(std::span(&one, 1), std::span(&other, 1));
      }
    }
    EXPECT_EQ(overlap(lists[0], lists[1]), expected);
    overlapping += expected ? 1 : 0;
  }
  EXPECT_GT(overlapping, 200);
  EXPECT_LT(overlapping, 1800);
}

TEST(Mover, DoesWhatOverlapsInTheOrderGiven) {
  Log log;
  Mover mover;
  mover.pause();
  mover.add({{writes(0, 100)}, device::Moment(at(1)), Lane::kToDevice, log.entry('a')});
  mover.add({{reads(50, 100)}, device::Moment(at(2)), Lane::kToHost, log.entry('b')});
  mover.add({{writes(99, 1)}, device::Moment(at(3)), Lane::kToDevice, log.entry('c')});
  mover.in_order(std::array{writes(149, 1)}, log.entry('d'));
  EXPECT_EQ(log.text(), "");
  mover.resume();
  mover.wait_until(at(3));
  EXPECT_EQ(log.text().substr(0, 2), "ab");
  EXPECT_EQ(log.text().size(), 4U);
  EXPECT_FALSE(mover.busy());
}

TEST(Mover, ReadersDoNotWaitForEachOther) {
  Log log;
  Mover mover;
  mover.pause();
  mover.add({{reads(0, 100)}, device::Moment(at(1)), Lane::kToHost, log.entry('a')});
  mover.in_order(std::array{reads(0, 100)}, log.entry('b'));
  EXPECT_EQ(log.text(), "b");
  mover.in_order(std::array{writes(99, 100)}, log.entry('c'));
  EXPECT_EQ(log.text(), "b");
  mover.resume();
  mover.wait_until(at(1));
  EXPECT_EQ(log.text(), "bac");
}

TEST(Mover, WhoWaitsForATimeWaitsForWhatEndsUntilThen) {
  Log log;
  Mover mover;
  mover.pause();
  mover.add({{writes(0, 1)}, device::Moment(at(10)), Lane::kToDevice, log.entry('a')});
  EXPECT_TRUE(mover.is_done_until(at(9)));
  EXPECT_FALSE(mover.is_done_until(at(10)));
  mover.wait_until(at(9));
  EXPECT_EQ(log.text(), "");
  mover.wait_for(std::array{writes(1, 1)});
  EXPECT_EQ(log.text(), "");
  // Work that waits for a job ends with it.
  mover.in_order(std::array{writes(0, 1)}, log.entry('b'));
  EXPECT_TRUE(mover.is_done_until(at(9)));
  mover.resume();
  mover.wait_until(at(10));
  EXPECT_EQ(log.text(), "ab");
}

TEST(Mover, DirectionsGoSideBySide) {
  Mover mover;
  std::atomic<int> running{0};
  // Each ends when the other runs, too.
  const auto meet = [&running] {
    ++running;
    while (running < 2) std::this_thread::yield();
  };
  mover.add({{writes(0, 1)}, device::Moment(at(1)), Lane::kToDevice, meet});
  mover.add({{writes(1, 1)}, device::Moment(at(1)), Lane::kToHost, meet});
  mover.wait_until(at(1));
  EXPECT_EQ(running, 2);
}

TEST(Mover, CopiesOfOneDirectionComeOneAfterTheOther) {
  Log log;
  Mover mover;
  mover.pause();
  for (const char name : std::string("abcdef")) {
    mover.add({{writes(static_cast<unsigned char>(name), 1)},
               device::Moment(at(1)),
               Lane::kToHost,
               log.entry(name)});
  }
  mover.resume();
  mover.wait_until(at(1));
  EXPECT_EQ(log.text(), "abcdef");
}

TEST(Mover, JobsOfEitherLaneStartAThreadThatDoesThoseOfOne) {
  Log log;
  Mover mover;
  mover.add({{writes(0, 1)}, device::Moment(at(1)), Lane::kEither, log.entry('a')});
  mover.add({{writes(0, 1)}, device::Moment(at(1)), Lane::kToDevice, log.entry('b')});
  mover.wait_until(at(1));
  mover.add({{writes(0, 1)}, device::Moment(at(2)), Lane::kToHost, log.entry('c')});
  mover.wait_until(at(2));
  EXPECT_EQ(log.text(), "abc");
}

TEST(Mover, JobsThatWaitForSomethingElseDoNotMakeTheHostWait) {
  constexpr int kJobs = 1000;
  std::atomic<bool> has_come{false};
  std::atomic<int> done{0};
  Mover mover;
  for (int i = 0; i < kJobs; ++i) {
    mover.add({.accesses = {writes(0, 1)},
               .end = device::Moment(at(1)),
               .lane = Lane::kToDevice,
               .work = [&done] { ++done; },
               .may_begin = [&has_come] { return has_come.load(); }});
    // Waits for those.
    mover.in_order(std::array{reads(0, 1)}, [&done] { ++done; });
  }
  EXPECT_EQ(done, 0);
  // Others go past them.
  mover.add({{writes(1, 1)}, device::Moment(at(0)), Lane::kToDevice, [&done] { ++done; }});
  mover.wait_until(at(0));
  EXPECT_EQ(done, 1);
  has_come = true;
  mover.look_again();
  mover.wait_for_all();
  EXPECT_EQ(done, 2 * kJobs + 1);
}

TEST(Mover, EndsWithWorkThatNeverBegan) {
  Log log;
  {
    Mover mover;
    mover.pause();
    mover.add({{writes(0, 1)}, device::Moment(at(1)), Lane::kToDevice, log.entry('a')});
  }
  EXPECT_EQ(log.text(), "");
}

TEST(Mover, IsRightForManyJobsOfManyThreads) {
  constexpr unsigned kThreads = 4, kRounds = 2000;
  constexpr Bytes kCells = 8;
  Mover mover;
  // Each thread has its own cells, and each job shifts one into the next: the result shows whether
  // they were done in order.
  std::array<std::array<unsigned, kCells>, kThreads> cells{};
  std::array<std::array<unsigned, kCells>, kThreads> expected{};
  std::array<std::thread, kThreads> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads[t] = std::thread([&, t] {
      for (unsigned i = 0; i < kRounds; ++i) {
        const auto from = (i * 7 + i / 5) % kCells;
        const auto to = (i * 3 + 1) % kCells;
        expected[t][to] = expected[t][from] * 3 + i;
        const auto work = [&cells, t, from, to, i] { cells[t][to] = cells[t][from] * 3 + i; };
        const std::uint64_t base = t * 1000;
        const std::array accesses{reads(base + from, 1), writes(base + to, 1)};
        if (i % 3 == 0) {
          mover.in_order(accesses, work);
        } else {
          mover.add({{accesses.begin(), accesses.end()},
                     device::Moment(at(static_cast<int>(i))),
                     i % 2 == 0 ? Lane::kToHost : Lane::kToDevice,
                     work});
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  mover.wait_for_all();
  EXPECT_EQ(cells, expected);
}

}  // namespace
}  // namespace gpemu::streams
