// SPDX-License-Identifier: Apache-2.0
#include "step_queue.hpp"

#include <gtest/gtest.h>

namespace gpemu::predict {
namespace {

using Kind = record::WorkEvent::Kind;

QueuedEvent event(Kind kind, int launch, int time, int recorded = 0, std::int64_t stream = 0) {
  return {.kind = kind,
          .stream = stream,
          .recorded = at_ns(recorded),
          .launch = Duration(launch),
          .time = Duration(time)};
}

/// Returns by how much later each of some steps ends than the previous one.
std::vector<int> steps(const std::vector<QueuedEvent>& step, int circle = 0, int count = 4) {
  StepQueue queue(step, Duration(circle));
  std::vector<int> times;
  TimePoint before{};
  for (int i = 0; i < count; ++i) {
    const TimePoint after = queue.run();
    times.push_back(static_cast<int>((after - before).count()));
    before = after;
  }
  return times;
}

TEST(StepQueue, IsBoundByTheSlowerOfHostAndDevice) {
  // The first step also takes the host's first launch, or the device's last operation.
  EXPECT_EQ(steps({event(Kind::kOperation, 10, 100), event(Kind::kOperation, 10, 100)}),
            (std::vector{210, 200, 200, 200}));
  EXPECT_EQ(steps({event(Kind::kOperation, 100, 10), event(Kind::kOperation, 100, 10)}),
            (std::vector{210, 200, 200, 200}));
}

TEST(StepQueue, DrainsWhereTheHostWaits) {
  // The device has nothing to do while the host notices the end, and launches the first operation
  // of the next step.
  EXPECT_EQ(steps({event(Kind::kOperation, 10, 100, 100), event(Kind::kOperation, 10, 100, 200),
                   event(Kind::kWait, 5, 0, 200)},
                  200),
            (std::vector{215, 215, 215, 215}));
}

TEST(StepQueue, WaitsForNoMoreThanWhatHadEnded) {
  // For the first operation only: the second runs while the host goes on.
  const std::vector<QueuedEvent> step = {event(Kind::kOperation, 10, 100, 100),
                                         event(Kind::kOperation, 10, 100, 200),
                                         event(Kind::kWait, 0, 0, 100)};
  EXPECT_EQ(steps(step, 200), (std::vector{210, 200, 200, 200}));
}

TEST(StepQueue, WaitsForTheStepBefore) {
  // At its beginning a step waits for all of the previous one, whose last operation ended at 200,
  // which is 0 of this step.
  const std::vector<QueuedEvent> step = {event(Kind::kWait, 0, 0, 0),
                                         event(Kind::kOperation, 10, 100, 100),
                                         event(Kind::kOperation, 10, 100, 200)};
  EXPECT_EQ(steps(step, 200), (std::vector{210, 210, 210, 210}));
}

TEST(StepQueue, CopiesBesideKernelsOfOtherStreams) {
  const std::vector<QueuedEvent> beside = {event(Kind::kCopyToDevice, 1, 80, 0, 1),
                                           event(Kind::kOperation, 1, 100, 0, 2)};
  EXPECT_EQ(steps(beside).back(), 100);
  const std::vector<QueuedEvent> behind = {event(Kind::kCopyToDevice, 1, 80, 0, 2),
                                           event(Kind::kOperation, 1, 100, 0, 2)};
  EXPECT_EQ(steps(behind).back(), 180);
  StepQueue queue(behind, {});
  queue.run();
  queue.run();
  EXPECT_EQ(queue.copies_alone(), Duration(80));
}

TEST(StepQueue, CountsCopiesWhileNoKernelRuns) {
  const std::vector<QueuedEvent> step = {event(Kind::kOperation, 10, 20, 0, 1),        // 10 to 30
                                         event(Kind::kCopyToDevice, 10, 100, 0, 2),    // 20 to 120
                                         event(Kind::kOperation, 40, 30, 0, 3),        // 60 to 90
                                         event(Kind::kCopyFromDevice, 0, 100, 0, 4)};  // 60 to 160
  StepQueue queue(step, {});
  queue.run();
  EXPECT_EQ(queue.copies_alone(), Duration(30 + 70));  // 30 to 60, and 90 to 160.
}

QueuedEvent use_of_event(Kind kind, std::int64_t stream, int number) {
  return {.kind = kind, .stream = stream, .event = number};
}

/// Two layers, whose gradients are exchanged in stream 1, and an optimizer that waits for both.
std::vector<QueuedEvent> exchanging(int exchange) {
  return {event(Kind::kOperation, 1, 100),        use_of_event(Kind::kEventRecord, 0, 0),
          use_of_event(Kind::kEventWait, 1, 0),   event(Kind::kCollective, 1, exchange, 0, 1),
          event(Kind::kOperation, 1, 100),        use_of_event(Kind::kEventRecord, 0, 0),
          use_of_event(Kind::kEventWait, 1, 0),   event(Kind::kCollective, 1, exchange, 0, 1),
          use_of_event(Kind::kEventRecord, 1, 1), use_of_event(Kind::kEventWait, 0, 1),
          event(Kind::kOperation, 1, 10)};
}

TEST(StepQueue, RunsCollectivesBesideKernelsOfOtherStreams) {
  // The first is hidden, the second is not.
  EXPECT_EQ(steps(exchanging(30)), (std::vector{241, 240, 240, 240}));
}

TEST(StepQueue, RunsTheCollectivesOfAStreamInOrder) {
  // Both together begin after the first layer.
  EXPECT_EQ(steps(exchanging(300)), (std::vector{711, 710, 710, 710}));
}

TEST(StepQueue, KnowsWhichCollectivesAreExposed) {
  const std::vector<QueuedEvent> step = exchanging(130);
  StepQueue queue(step, Duration(0));
  queue.run();
  EXPECT_EQ(queue.collectives(), Duration(260));
  EXPECT_EQ(queue.collectives_alone(), Duration(160)) << "all but what the second layer hides";
}

}  // namespace
}  // namespace gpemu::predict
