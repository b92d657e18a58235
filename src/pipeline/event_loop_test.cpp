// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/event_loop.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

namespace gpemu::pipeline {
namespace {

struct Ended {
  double time_s = 0;
  std::uint32_t index = 0;
};

std::vector<Ended> all_of(EventLoop& loop) {
  std::vector<Ended> ended;
  while (const auto event = loop.next()) ended.push_back({loop.now_s(), event->index});
  return ended;
}

TEST(Station, ServesOneJobAtItsSpeed) {
  EventLoop loop;
  const auto station = loop.add_station({0, 2});
  loop.serve(station, 3, {.index = 7});
  const std::vector<Ended> ended = all_of(loop);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_DOUBLE_EQ(ended[0].time_s, 1.5);
  EXPECT_EQ(ended[0].index, 7U);
}

TEST(Station, SharesItsSpeedEqually) {
  // The first job is alone for 1 s, shares for 2 s, and has got 2 s of work then.
  EventLoop loop;
  const auto station = loop.add_station({0, 1});
  loop.serve(station, 2, {.index = 0});
  loop.after(1, {.index = 9});
  ASSERT_EQ(loop.next()->index, 9U);
  loop.serve(station, 5, {.index = 1});
  const std::vector<Ended> ended = all_of(loop);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_DOUBLE_EQ(ended[0].time_s, 3);
  EXPECT_DOUBLE_EQ(ended[1].time_s, 7);
}

TEST(Station, TheLastSpeedHoldsForMoreJobs) {
  EventLoop loop;
  const auto station = loop.add_station({0, 1, 1.5});
  for (std::uint32_t i = 0; i < 3; ++i) loop.serve(station, 1, {.index = i});
  const std::vector<Ended> ended = all_of(loop);
  ASSERT_EQ(ended.size(), 3U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(ended[i].time_s, 2);
    EXPECT_EQ(ended[i].index, i);  // In the order of arrival.
  }
}

TEST(EventLoop, TimersComeBeforeStationsAtTheSameTime) {
  EventLoop loop;
  const auto station = loop.add_station({0, 1});
  loop.serve(station, 1, {.index = 1});
  loop.after(1, {.index = 2});
  loop.after(1, {.index = 3});
  const std::vector<Ended> ended = all_of(loop);
  ASSERT_EQ(ended.size(), 3U);
  EXPECT_EQ(ended[0].index, 2U);
  EXPECT_EQ(ended[1].index, 3U);
  EXPECT_EQ(ended[2].index, 1U);
}

/// The same by small steps of time, without the trick of common service.
std::vector<double> plain_ends(const std::vector<double>& arrivals, const std::vector<double>& work,
                               const std::vector<double>& speeds) {
  std::vector<double> left = work, ends(work.size(), -1);
  double now = 0;
  while (std::ranges::find(ends, -1) != ends.end()) {
    std::vector<std::size_t> there;
    double next = 1e99;
    for (std::size_t i = 0; i < work.size(); ++i) {
      if (ends[i] >= 0) continue;
      if (arrivals[i] <= now) there.push_back(i);
      if (arrivals[i] > now) next = std::min(next, arrivals[i]);
    }
    if (!there.empty()) {
      const double each =
          speeds[std::min(there.size(), speeds.size() - 1)] / static_cast<double>(there.size());
      double least = 1e99;
      for (const std::size_t i : there) least = std::min(least, left[i]);
      const double end = std::min(next, now + least / each);
      for (const std::size_t i : there) {
        left[i] -= (end - now) * each;
        if (left[i] < 1e-12) ends[i] = end;
      }
      now = end;
    } else {
      now = next;
    }
  }
  return ends;
}

TEST(Station, AgreesWithAPlainSimulation) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    sim::Rng random(seed);
    std::vector<double> speeds{0};
    for (int i = 0; i < 5; ++i) speeds.push_back(speeds.back() + random.uniform(0.1, 1));
    std::vector<double> arrivals, work;
    for (int i = 0; i < 20; ++i) {
      arrivals.push_back(random.uniform(0, 10));
      work.push_back(random.uniform(0.01, 3));
    }
    EventLoop loop;
    const auto other = loop.add_station({0, 1});
    const auto station = loop.add_station(speeds);
    loop.serve(other, 1e6, {.kind = 2});
    for (std::uint32_t i = 0; i < 20; ++i) loop.after(arrivals[i], {.kind = 0, .index = i});
    std::vector<double> ends(20, -1);
    for (int left = 40; left > 0; --left) {
      const auto event = loop.next();
      ASSERT_TRUE(event);
      if (event->kind == 0)
        loop.serve(station, work[event->index], {.kind = 1, .index = event->index});
      if (event->kind == 1) ends[event->index] = loop.now_s();
    }
    const std::vector<double> expected = plain_ends(arrivals, work, speeds);
    for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(ends[i], expected[i], 1e-8) << seed;
  }
}

}  // namespace
}  // namespace gpemu::pipeline
