// SPDX-License-Identifier: Apache-2.0
#include "timeline.hpp"

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

constexpr std::size_t kKernels = static_cast<std::size_t>(Engine::kCompute);
constexpr std::size_t kCopies = static_cast<std::size_t>(Engine::kCopyHostToDevice);

Moment at(std::int64_t ns) {
  return Moment(at_ns(ns));
}

/// Start and end of what ran, in nanoseconds.
using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// The timeline of a process that has one device to itself, without a node.
class TimelineTest : public testing::Test {
 protected:
  TimelineTest() {
    std::vector<DeviceEngines> devices;
    devices.push_back({.sharing = make_sharing(SharingPolicy::kFifo, records_, own_,
                                               [](std::size_t, TimePoint, std::int64_t) {}),
                       .records = records_,
                       .own = &own_});
    timeline_ = std::make_unique<Timeline>(nullptr, std::move(devices));
  }

  /// Adds a stream of a context of its own, so that its work is observed separately.
  Lane& add_lane() {
    auto group = std::make_shared<LaneGroup>();
    Lane& lane = lanes_.emplace_back(group);
    group->observer = [this, &lane](const StartedWork& work) {
      ran_[&lane].emplace_back(to_ns(work.start), to_ns(work.end));
    };
    timeline_->add(std::move(group));
    return lane;
  }
  /// Queues work in a lane at time 0.
  QueuedWork queue(Lane& lane, std::size_t engine, std::int64_t cost) {
    return timeline_->queue(lane, engine, at_ns(0), Duration(cost), 0);
  }
  /// The same of a kernel that fills a part of the GPU, in tenths.
  QueuedWork queue_part(Lane& lane, std::int64_t cost, int width, int memory = 0) {
    const auto part = [](int tenths, std::uint32_t whole) {
      return static_cast<std::uint16_t>(tenths * static_cast<int>(whole) / 10);
    };
    return timeline_->queue(lane, kKernels, at_ns(0), Duration(cost), 0,
                            {.width = part(width, kWholeWidth),
                             .memory = static_cast<std::uint8_t>(part(memory, Room::kWholeRate))});
  }
  void wait(Lane& lane, const Moment& moment) { timeline_->wait_in_stream(lane, at_ns(0), moment); }
  Moment last_end(Lane& lane) { return timeline_->last_end(lane, at_ns(0)); }

  /// Runs everything, and returns when the work of a lane ran.
  Spans spans_of(const Lane& lane) {
    timeline_->place_all();
    timeline_->forget_started(TimePoint::max());
    return ran_[&lane];
  }

  std::array<layout::EngineRecord, kEngineCount> records_{};
  layout::HoldingRecord own_{};
  std::deque<Lane> lanes_;
  std::map<const Lane*, Spans> ran_;
  std::unique_ptr<Timeline> timeline_;
};

TEST_F(TimelineTest, WorkOfALaneRunsInOrderOnAllEngines) {
  Lane& lane = add_lane();
  queue(lane, kCopies, 3);
  queue(lane, kKernels, 10);
  EXPECT_EQ(queue(lane, kCopies, 4).expected.start, at_ns(13));
  EXPECT_EQ(spans_of(lane), (Spans{{0, 3}, {3, 13}, {13, 17}}));
}

TEST_F(TimelineTest, WorkThatIsReadyFirstPutsOffWorkThatWasQueuedFirst) {
  Lane& late = add_lane();
  Lane& early = add_lane();
  wait(late, at(5));
  EXPECT_EQ(queue(late, kKernels, 10).expected.start, at_ns(5));
  wait(early, at(1));
  queue(early, kKernels, 8);
  EXPECT_EQ(spans_of(early), (Spans{{1, 9}}));
  EXPECT_EQ(spans_of(late), (Spans{{9, 19}}));
}

TEST_F(TimelineTest, OfWorkThatIsReadyAtOnceTheFirstQueuedRunsFirst) {
  Lane& first = add_lane();
  Lane& second = add_lane();
  Lane& before = add_lane();
  wait(second, at(5));
  wait(first, at(5));
  queue(first, kKernels, 10);
  queue(second, kKernels, 10);
  queue(before, kKernels, 7);  // Places all of them anew.
  EXPECT_EQ(spans_of(before), (Spans{{0, 7}}));
  EXPECT_EQ(spans_of(first), (Spans{{7, 17}}));
  EXPECT_EQ(spans_of(second), (Spans{{17, 27}}));
}

TEST_F(TimelineTest, WorkThatTakesNoTimeIsDoneBeforeOthersStartAtThatTime) {
  // At 10, two kernels without duration end, and then both copies are ready.
  Lane& busy = add_lane();
  Lane& kernel = add_lane();
  Lane& first_copy = add_lane();
  Lane& second_copy = add_lane();
  Lane& other_kernel = add_lane();
  queue(busy, kKernels, 10);
  wait(kernel, at(5));
  queue(kernel, kKernels, 0);
  wait(first_copy, last_end(kernel));
  queue(first_copy, kCopies, 3);
  wait(second_copy, at(10));
  queue(second_copy, kCopies, 5);
  queue(other_kernel, kKernels, 0);  // Runs before the first kernel, so all are placed anew.
  EXPECT_EQ(spans_of(other_kernel), (Spans{{10, 10}}));
  EXPECT_EQ(spans_of(first_copy), (Spans{{10, 13}}));
  EXPECT_EQ(spans_of(second_copy), (Spans{{13, 18}}));
}

TEST_F(TimelineTest, StartedWorkIsNotPutOff) {
  Lane& running = add_lane();
  Lane& early = add_lane();
  wait(running, at(5));
  queue(running, kKernels, 10);
  timeline_->pass(at_ns(6));
  timeline_->place_until(at_ns(6));
  timeline_->forget_started(at_ns(6));
  timeline_->queue(early, kKernels, at_ns(6), Duration(1), 0);
  EXPECT_EQ(spans_of(running), (Spans{{5, 15}}));
  EXPECT_EQ(spans_of(early), (Spans{{15, 16}}));
}

TEST_F(TimelineTest, KernelsThatFillPartsOfTheGpuRunSideBySide) {
  // As on an H200: two that fill a half each, three quarters and a half, a quarter after one that
  // fills the GPU (docs/design/measured-sharing.md).
  Lane& first = add_lane();
  Lane& second = add_lane();
  Lane& third = add_lane();
  Lane& fourth = add_lane();
  EXPECT_EQ(queue_part(first, 1006, 5).expected.start, at_ns(0));
  EXPECT_EQ(queue_part(second, 1000, 5).expected.start, at_ns(0));
  EXPECT_EQ(queue_part(third, 1000, 7).expected.start, at_ns(1006))
      << "as soon as both halves are free";
  EXPECT_EQ(queue(fourth, kKernels, 100).expected.start, at_ns(2006));
  EXPECT_EQ(queue_part(first, 10, 2).expected.start, at_ns(2106));
  EXPECT_EQ(to_ns(timeline_->now()), 0);
  EXPECT_EQ(own_.engines[kKernels].queued.busy_ns, 2116) << "time counts once";
  EXPECT_EQ(spans_of(second), (Spans{{0, 1000}}));
}

TEST_F(TimelineTest, AKernelThatDoesNotFitHoldsBackThoseThatAreReadyLater) {
  Lane& first = add_lane();
  Lane& second = add_lane();
  Lane& third = add_lane();
  queue_part(first, 100, 6);
  queue_part(second, 100, 6);
  EXPECT_EQ(queue_part(third, 10, 2).expected.start, at_ns(100))
      << "its blocks come after the second one's";
}

TEST_F(TimelineTest, KernelsThatNeedTheWholeMemoryRateRunOneAfterTheOther) {
  Lane& first = add_lane();
  Lane& second = add_lane();
  Lane& third = add_lane();
  queue_part(first, 100, 3, 8);
  EXPECT_EQ(queue_part(second, 100, 3, 2).expected.start, at_ns(0));
  EXPECT_EQ(queue_part(third, 100, 3, 1).expected.start, at_ns(100));
}

TEST_F(TimelineTest, AnUrgentKernelStartsAtTheEndOfAWave) {
  Lane& normal = add_lane();
  Lane& urgent = add_lane();
  timeline_->set_priority(urgent, -1);
  ASSERT_TRUE(timeline_->has_more_urgent(normal, kKernels));
  ASSERT_FALSE(timeline_->has_more_urgent(urgent, kKernels));
  const QueuedWork all =
      timeline_->queue_waves(normal, kKernels, at_ns(0), Duration(1000), Room{}, 10);
  EXPECT_EQ(all.expected.start, at_ns(0));
  EXPECT_EQ(all.expected.end, at_ns(1000));
  EXPECT_EQ(all.busy, Duration(1000));
  EXPECT_EQ(own_.engines[kKernels].queued.operations, 1U) << "it is one kernel";
  timeline_->pass(at_ns(150));
  timeline_->queue(urgent, kKernels, at_ns(150), Duration(20), 0);
  EXPECT_EQ(spans_of(urgent), (Spans{{200, 220}}));
  EXPECT_EQ(ran_[&normal].front(), (std::pair<std::int64_t, std::int64_t>{0, 100}));
  EXPECT_EQ(ran_[&normal].back().second, 1020);
}

TEST_F(TimelineTest, AnUrgentKernelRunsBesideOthersIfThereIsRoom) {
  Lane& normal = add_lane();
  Lane& other = add_lane();
  Lane& urgent = add_lane();
  timeline_->set_priority(urgent, -1);
  queue_part(normal, 100, 7);
  queue_part(other, 100, 7);
  timeline_->pass(at_ns(10));
  const auto room = Room{.width = kWholeWidth / 10, .memory = 0};
  timeline_->queue(urgent, kKernels, at_ns(10), Duration(20), 0, room);
  EXPECT_EQ(spans_of(urgent), (Spans{{10, 30}}));
  EXPECT_EQ(spans_of(other), (Spans{{100, 200}}));
}

TEST_F(TimelineTest, AtMost128KernelsRunAtOnce) {
  for (int i = 0; i < 128; ++i) {
    EXPECT_EQ(timeline_->queue(add_lane(), kKernels, at_ns(0), Duration(100), 0, {.width = 1})
                  .expected.start,
              at_ns(0));
  }
  EXPECT_EQ(timeline_->queue(add_lane(), kKernels, at_ns(0), Duration(100), 0, {.width = 1})
                .expected.start,
            at_ns(100));
}

TEST_F(TimelineTest, WorkAfterAnOpenMarkRunsOnceTheMarkHasItsTime) {
  Lane& waiting = add_lane();
  Lane& free = add_lane();
  const MarkReference mark = timeline_->wait_for_open_mark(waiting, at_ns(0), Duration(1));
  queue(waiting, kKernels, 10);
  wait(free, at(40));
  queue(free, kKernels, 5);
  EXPECT_TRUE(mark->is_open());
  EXPECT_EQ(timeline_->next_start(), TimePoint::max()) << "nothing is in line";
  timeline_->resolve(*mark.get(), at_ns(35), at_ns(35));
  EXPECT_TRUE(mark->is_final());
  EXPECT_EQ(spans_of(waiting), (Spans{{35, 45}})) << "it is ready before the other";
  EXPECT_EQ(spans_of(free), (Spans{{45, 50}}));
}

TEST_F(TimelineTest, AWaitIsFinalAsSoonAsItIsKnownHowLongItIs) {
  Lane& lane = add_lane();
  const MarkReference mark = timeline_->wait_for_open_mark(lane, at_ns(0), Duration(1));
  wait(lane, at(50));
  timeline_->resolve(*mark.get(), at_ns(35), at_ns(10));
  ASSERT_EQ(lane.tasks.size(), 2U);
  timeline_->forget_started(at_ns(10));
  EXPECT_TRUE(lane.tasks.empty());
  EXPECT_EQ(timeline_->end_of(lane, at_ns(10)).time(), at_ns(50));
  EXPECT_EQ(queue(lane, kKernels, 5).expected.start, at_ns(50));
}

TEST_F(TimelineTest, AWaitIsNotFinalBeforeWhatItWaitsFor) {
  Lane& working = add_lane();
  Lane& lane = add_lane();
  queue(working, kKernels, 10);
  queue(working, kKernels, 10);
  wait(lane, timeline_->last_end(working, at_ns(0)));
  timeline_->forget_started(at_ns(5));
  EXPECT_EQ(lane.tasks.size(), 1U);
  timeline_->forget_started(at_ns(10));
  EXPECT_TRUE(lane.tasks.empty());
}

TEST_F(TimelineTest, ALaneIsReadySoMuchAfterTheRoundForWhichItWaits) {
  timeline_->follow_rounds();
  Lane& lane = add_lane();
  const MarkReference mark = timeline_->wait_for_open_mark(lane, at_ns(0), Duration(1));
  queue(lane, kKernels, 10);
  queue(lane, kCopies, 4);
  Ready ready = timeline_->ready(lane, at_ns(0));
  ASSERT_NE(ready.epoch, 0U);
  ASSERT_EQ(ready.terms.size(), 1U);
  EXPECT_EQ(ready.terms.front().round.get(), mark.get());
  EXPECT_EQ(ready.terms.front().after, Duration(14));

  timeline_->resolve(*mark.get(), at_ns(30), at_ns(30));
  EXPECT_TRUE(timeline_->update(ready));
  EXPECT_TRUE(ready.terms.empty());
  EXPECT_EQ(ready.time, at_ns(44));
  EXPECT_EQ(spans_of(lane), (Spans{{30, 40}, {40, 44}}));
}

TEST_F(TimelineTest, WorkOfAnotherLaneOnTheEngineEndsWhatWasKnownOfALane) {
  timeline_->follow_rounds();
  Lane& lane = add_lane();
  Lane& other = add_lane();
  const MarkReference mark = timeline_->wait_for_open_mark(lane, at_ns(0), Duration(1));
  queue(lane, kKernels, 10);
  Ready ready = timeline_->ready(lane, at_ns(0));
  EXPECT_FALSE(timeline_->is_used_by_other(lane, kKernels, at_ns(0)));
  EXPECT_TRUE(timeline_->is_used_by_other(other, kKernels, at_ns(0)));
  EXPECT_TRUE(timeline_->update(ready));
  wait(other, at(3));
  queue(other, kKernels, 5);
  EXPECT_FALSE(timeline_->update(ready));
  EXPECT_EQ(timeline_->ready(lane, at_ns(0)).epoch, 0U);
  timeline_->resolve(*mark.get(), at_ns(4), at_ns(4));
}

TEST_F(TimelineTest, AnAbandonedLaneRunsToItsEnd) {
  auto group = std::make_shared<LaneGroup>();
  Spans ran;
  group->observer = [&](const StartedWork& work) {
    ran.emplace_back(to_ns(work.start), to_ns(work.end));
  };
  timeline_->add(group);
  auto lane = std::make_unique<Lane>(group);
  wait(*lane, at(5));
  queue(*lane, kKernels, 10);
  timeline_->abandon(std::move(lane), at_ns(0));
  timeline_.reset();
  EXPECT_EQ(ran, (Spans{{5, 15}}));
}

}  // namespace
}  // namespace gpemu::device
