// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/device.hpp"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

TimePoint at(Duration time) {
  return TimePoint(time);
}

/// One emulated GPU with 1000 KiB of memory in this process, at virtual time zero.
class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    const NodeConfig config{.name = "test",
                            .devices = {{.gpu = "TEST-GPU", .memory_bytes = 1000 * kKiB}}};
    node_ = Node::create_private(config).value();
    device_ = Device::open(node_, 0, clock_).value();
  }

  DeviceSnapshot snapshot() { return node_->device_snapshot(0, clock_.now()); }

  sim::VirtualClock clock_;
  std::shared_ptr<Node> node_;
  std::unique_ptr<Device> device_;
};

TEST_F(DeviceTest, RunsTheWorkOfAStreamInOrderWithoutGaps) {
  const auto stream = device_->create_stream();
  const QueuedWork first = stream->launch(3ms);
  const QueuedWork second = stream->launch(2ms);
  EXPECT_EQ(first.expected.start, at(0ms));
  EXPECT_EQ(first.expected.end, at(3ms));
  EXPECT_EQ(second.expected.start, at(3ms));
  EXPECT_EQ(second.expected.end, at(5ms));
  EXPECT_EQ(clock_.now(), at(0ms)) << "queueing takes no emulated time";
  stream->synchronize();
  EXPECT_EQ(clock_.now(), at(5ms));
}

TEST_F(DeviceTest, ReservesNoMoreThanWasQueued) {
  const auto stream = device_->create_stream(StreamKind::kNonBlocking);
  const auto copies = device_->create_stream(StreamKind::kNonBlocking);
  const auto late = device_->create_stream(StreamKind::kNonBlocking);
  for (int i = 0; i < 6; ++i) stream->launch(10ms);
  clock_.wait_until(at(55ms));
  copies->copy(Engine::kCopyHostToDevice, 1, 25ms);
  stream->wait(copies->tail());
  stream->launch(10ms);
  EXPECT_EQ(late->launch(5ms).expected.start, at(55ms)) << "as far as known";
  EXPECT_EQ(late->tail().time(), at(65ms));
  EXPECT_EQ(snapshot().engines[0].idle_from, at(90ms)) << "it fits in before";
}

TEST_F(DeviceTest, APauseTakesTimeButNoEngine) {
  const auto stream = device_->create_stream(StreamKind::kNonBlocking);
  const auto other = device_->create_stream(StreamKind::kNonBlocking);
  stream->launch(10ms);
  stream->pause(5ms);
  stream->launch(1ms);
  other->launch(2ms);
  EXPECT_EQ(stream->tail().time(), at(16ms)) << "the other stream's work fits into the pause";
  EXPECT_EQ(other->tail().time(), at(12ms));
  stream->synchronize();
  stream->pause(3ms);
  EXPECT_EQ(stream->tail().time(), at(19ms));
}

TEST_F(DeviceTest, APauseMovesWithWhatComesBeforeIt) {
  const auto stream = device_->create_stream(StreamKind::kNonBlocking);
  const auto other = device_->create_stream(StreamKind::kNonBlocking);
  other->launch(4ms);
  stream->wait(other->tail());
  stream->launch(1ms);
  stream->pause(2ms);
  const Moment end = stream->last_end();
  EXPECT_EQ(end.time(), at(7ms));
  const auto third = device_->create_stream(StreamKind::kNonBlocking);
  third->launch(10ms);  // It is ready earlier than the first stream's kernel.
  EXPECT_EQ(end.time(), at(17ms));
  end.wait(clock_);
  EXPECT_EQ(clock_.now(), at(17ms));
}

TEST_F(DeviceTest, StartsWorkNoEarlierThanItWasQueued) {
  const auto stream = device_->create_stream();
  stream->launch(1ms);
  clock_.wait_until(at(10ms));
  EXPECT_EQ(stream->launch(1ms).expected.start, at(10ms));
}

TEST_F(DeviceTest, SharesTheComputeEngineAmongStreams) {
  const auto a = device_->create_stream(StreamKind::kNonBlocking);
  const auto b = device_->create_stream(StreamKind::kNonBlocking);
  a->launch(4ms);
  EXPECT_EQ(b->launch(1ms).expected.start, at(4ms));
}

TEST_F(DeviceTest, OverlapsCopiesInBothDirectionsWithCompute) {
  const auto compute = device_->create_stream();
  const auto in = device_->create_stream();
  const auto out = device_->create_stream();
  EXPECT_EQ(compute->launch(4ms).expected.start, at(0ms));
  EXPECT_EQ(in->copy(Engine::kCopyHostToDevice, 100, 3ms).expected.start, at(0ms));
  EXPECT_EQ(out->copy(Engine::kCopyDeviceToHost, 100, 2ms).expected.start, at(0ms));
  EXPECT_EQ(in->copy(Engine::kCopyDeviceToHost, 1, 1ms).expected.start, at(3ms))
      << "after the copy before it in its stream";
}

TEST_F(DeviceTest, WorkBeyondTheEndOfTimeEndsThereAndIsNotDone) {
  const auto stream = device_->create_stream();
  clock_.wait_until(at(1ms));
  stream->launch(1ms);
  const QueuedWork endless = stream->launch(Duration::max());
  EXPECT_EQ(endless.expected.start, at(2ms));
  EXPECT_EQ(endless.expected.end, TimePoint::max());
  EXPECT_EQ(endless.busy, Duration::max() - 2ms);
  const QueuedWork after = stream->launch(Duration::max());
  EXPECT_EQ(after.expected.start, TimePoint::max());
  EXPECT_EQ(after.expected.end, TimePoint::max());
  EXPECT_EQ(after.busy, 0ns);
  EXPECT_FALSE(stream->idle());
  EXPECT_EQ(snapshot().engines[0].busy, 0ns) << "nothing of it has run";
}

TEST_F(DeviceTest, EventsOrderWorkAcrossStreams) {
  const auto copies = device_->create_stream();
  const auto compute = device_->create_stream();
  Event copied;
  copies->copy(Engine::kCopyHostToDevice, 100, 3ms);
  copies->record(copied);
  copies->copy(Engine::kCopyHostToDevice, 100, 5ms);
  compute->wait(copied);
  EXPECT_EQ(compute->launch(1ms).expected.start, at(3ms));
}

TEST_F(DeviceTest, WorkThatWaitsHoldsUpNoWorkOfOtherStreams) {
  const auto waiting = device_->create_stream(StreamKind::kNonBlocking);
  const auto ready = device_->create_stream(StreamKind::kNonBlocking);
  waiting->wait(Event(at(100ms)));
  EXPECT_EQ(waiting->launch(10ms).expected.start, at(100ms));
  ready->launch(30ms);
  EXPECT_EQ(ready->tail().time(), at(30ms));
  EXPECT_EQ(waiting->tail().time(), at(110ms));
  // What has begun is finished first.
  ready->launch(80ms);
  EXPECT_EQ(ready->tail().time(), at(110ms));
  EXPECT_EQ(waiting->tail().time(), at(120ms));
  ready->launch(1ms);
  EXPECT_EQ(ready->tail().time(), at(121ms)) << "the other's work was ready before";
}

TEST_F(DeviceTest, WorkThatIsReadyComesBeforeWorkThatIsQueuedAhead) {
  const auto busy = device_->create_stream(StreamKind::kNonBlocking);
  Event third;
  for (int i = 0; i < 5; ++i) {
    busy->launch(10ms);
    if (i == 2) busy->record(third);
  }
  clock_.wait_until(at(12ms));
  const auto late = device_->create_stream(StreamKind::kNonBlocking);
  late->launch(3ms);
  EXPECT_EQ(late->tail().time(), at(23ms)) << "after the one that has begun";
  EXPECT_EQ(third.moment().time(), at(33ms));
  EXPECT_EQ(busy->tail().time(), at(53ms));
  EXPECT_FALSE(third.moment().is_over(at(32ms)));
  busy->synchronize();
  EXPECT_EQ(clock_.now(), at(53ms));
  EXPECT_EQ(third.moment().time(), at(33ms));
}

TEST_F(DeviceTest, KernelsOfUrgentStreamsComeFirst) {
  const auto training = device_->create_stream(StreamKind::kNonBlocking);
  const auto serving = device_->create_stream(StreamKind::kNonBlocking, -5);
  for (int i = 0; i < 3; ++i) training->launch(10ms);
  training->copy(Engine::kCopyHostToDevice, 1, 5ms);
  clock_.wait_until(at(8ms));
  serving->launch(2ms);
  serving->copy(Engine::kCopyDeviceToHost, 1, 1ms);
  serving->launch(2ms);
  EXPECT_EQ(serving->tail().time(), at(24ms)) << "each waits for the kernel that runs";
  EXPECT_EQ(training->tail().time(), at(39ms));
}

TEST_F(DeviceTest, CopiesHaveNoPriorities) {
  const auto serving = device_->create_stream(StreamKind::kNonBlocking, -5);
  for (int i = 0; i < 2; ++i) {
    const auto queued = device_->create_stream(StreamKind::kNonBlocking);
    queued->copy(Engine::kCopyHostToDevice, 1, 10ms);
  }
  serving->copy(Engine::kCopyHostToDevice, 1, 1ms);
  EXPECT_EQ(serving->tail().time(), at(21ms));
}

TEST_F(DeviceTest, WorkThatIsPutOffKeepsOthersWaiting) {
  const auto first = device_->create_stream(StreamKind::kNonBlocking);
  const auto second = device_->create_stream(StreamKind::kNonBlocking);
  const auto late = device_->create_stream(StreamKind::kNonBlocking);
  first->launch(10ms);
  first->launch(10ms);
  second->wait(first->tail());
  second->copy(Engine::kCopyHostToDevice, 1, 5ms);
  second->launch(1ms);
  EXPECT_EQ(second->tail().time(), at(26ms));
  late->launch(4ms);
  EXPECT_EQ(second->tail().time(), at(30ms));
  second->synchronize();
  EXPECT_EQ(clock_.now(), at(30ms));
  EXPECT_TRUE(first->idle());
}

TEST_F(DeviceTest, AStreamThatIsDestroyedEndsWhatItWasGiven) {
  auto stream = device_->create_stream(StreamKind::kNonBlocking);
  stream->launch(5ms);
  stream->launch(5ms);
  const Moment end = stream->tail();
  stream.reset();
  device_->create_stream(StreamKind::kNonBlocking)->launch(1ms);
  EXPECT_EQ(end.time(), at(11ms));
  device_->synchronize();
  EXPECT_EQ(clock_.now(), at(11ms));
}

TEST_F(DeviceTest, TheLegacyStreamWaitsForWorkOfStreamsThatAreDestroyed) {
  auto stream = device_->create_stream();
  stream->copy(Engine::kCopyHostToDevice, 1, 5ms);
  stream->copy(Engine::kCopyHostToDevice, 1, 5ms);
  stream.reset();
  device_->default_stream().launch(1ms);
  EXPECT_EQ(device_->default_stream().tail().time(), at(11ms));
}

TEST_F(DeviceTest, WaitingForAStreamWaitsForTheEventsItWaitsFor) {
  const auto blocking = device_->create_stream();
  blocking->wait(Event(at(5ms)));
  EXPECT_EQ(device_->default_stream().launch(1ms).expected.start, at(5ms));
  device_->synchronize();
  EXPECT_EQ(clock_.now(), at(6ms));
}

TEST_F(DeviceTest, WaitingForAnEventThatWasNeverRecordedDoesNothing) {
  const auto stream = device_->create_stream();
  stream->wait(Event());
  EXPECT_EQ(stream->launch(1ms).expected.start, at(0ms));
}

TEST_F(DeviceTest, EventsTimeTheWorkBetweenThem) {
  const auto stream = device_->create_stream();
  Event start;
  Event end;
  stream->launch(1ms);
  stream->record(start);
  stream->launch(7ms);
  stream->record(end);
  EXPECT_EQ(elapsed_time(start, end, clock_).error().code, ErrorCode::kNotReady);
  stream->synchronize();
  EXPECT_EQ(elapsed_time(start, end, clock_).value(), 7ms);
  EXPECT_EQ(elapsed_time(end, start, clock_).value(), -7ms);
  EXPECT_EQ(elapsed_time(start, Event(), clock_).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(DeviceTest, AnEventOnAnIdleStreamHappensNow) {
  const auto stream = device_->create_stream();
  clock_.wait_until(at(9ms));
  Event event;
  stream->record(event);
  EXPECT_EQ(event.moment().time(), at(9ms));
}

TEST_F(DeviceTest, LegacyDefaultStreamSynchronisesWithBlockingStreamsOnly) {
  const auto blocking = device_->create_stream(StreamKind::kBlocking);
  const auto free_running = device_->create_stream(StreamKind::kNonBlocking);
  blocking->copy(Engine::kCopyHostToDevice, 1, 5ms);
  // A kernel on the default stream waits for the copy on the blocking stream …
  EXPECT_EQ(device_->default_stream().launch(1ms).expected.start, at(5ms));
  // … and later work on the blocking stream waits for that kernel, though its engine is free.
  EXPECT_EQ(blocking->copy(Engine::kCopyHostToDevice, 1, 1ms).expected.start, at(6ms));
  EXPECT_EQ(free_running->copy(Engine::kCopyDeviceToHost, 1, 1ms).expected.start, at(0ms));
}

TEST_F(DeviceTest, SynchronizeWaitsForAllStreams) {
  const auto a = device_->create_stream(StreamKind::kNonBlocking);
  device_->default_stream().launch(1ms);
  a->copy(Engine::kCopyDeviceToHost, 1, 8ms);
  device_->synchronize();
  EXPECT_EQ(clock_.now(), at(8ms));
}

TEST_F(DeviceTest, CountsBusyTimeUpToNow) {
  const auto stream = device_->create_stream();
  stream->launch(10ms);
  stream->copy(Engine::kCopyHostToDevice, 4096, 2ms);
  clock_.wait_until(at(4ms));
  EXPECT_EQ(snapshot().engines[0].busy, 4ms);
  EXPECT_EQ(snapshot().engines[0].operations, 1U);
  EXPECT_EQ(snapshot().engines[1].bytes, 4096U);
  clock_.wait_until(at(30ms));
  EXPECT_EQ(snapshot().engines[0].busy, 10ms);
}

TEST_F(DeviceTest, CountsNoWaitingAsWorkThatIsQueued) {
  const auto stream = device_->create_stream();
  stream->copy(Engine::kCopyHostToDevice, 1, 6ms);
  stream->launch(400ms);
  clock_.wait_until(at(100ms));
  EXPECT_EQ(snapshot().engines[1].busy, 6ms);
  // The next step's copy waits for the compute of this one.
  EXPECT_EQ(stream->copy(Engine::kCopyHostToDevice, 1, 6ms).expected.start, at(406ms));
  for (const Duration time : {100ms, 300ms, 406ms}) {
    clock_.wait_until(at(time));
    EXPECT_EQ(snapshot().engines[1].busy, 6ms);
    EXPECT_EQ(snapshot().processes.at(0).busy[1], 6ms);
  }
  clock_.wait_until(at(410ms));
  EXPECT_EQ(snapshot().engines[1].busy, 10ms);
  clock_.wait_until(at(500ms));
  EXPECT_EQ(snapshot().engines[1].busy, 12ms);
}

TEST_F(DeviceTest, CountsWorkOnBothSidesOfAGap) {
  const auto stream = device_->create_stream(StreamKind::kNonBlocking);
  stream->launch(30ms);
  stream->wait(Event(at(50ms)));
  stream->launch(20ms);
  EXPECT_EQ(snapshot().engines[0].busy, 0ms);
  clock_.wait_until(at(10ms));
  EXPECT_EQ(snapshot().engines[0].busy, 10ms);
  clock_.wait_until(at(40ms));
  EXPECT_EQ(snapshot().engines[0].busy, 30ms);
  clock_.wait_until(at(60ms));
  EXPECT_EQ(snapshot().engines[0].busy, 40ms);
}

TEST_F(DeviceTest, CountsWorkThatFillsAGapAsItRuns) {
  const auto waiting = device_->create_stream(StreamKind::kNonBlocking);
  waiting->wait(Event(at(100ms)));
  waiting->launch(10ms);
  const auto ready = device_->create_stream(StreamKind::kNonBlocking);
  clock_.wait_until(at(40ms));
  EXPECT_EQ(ready->launch(30ms).expected.start, at(40ms));
  EXPECT_EQ(snapshot().engines[0].busy, 0ms);
  clock_.wait_until(at(60ms));
  EXPECT_EQ(snapshot().engines[0].busy, 20ms);
  clock_.wait_until(at(100ms));
  EXPECT_EQ(snapshot().engines[0].busy, 30ms);
}

TEST_F(DeviceTest, RefusesMemoryBeyondTheCapacity) {
  const DeviceAddress first = device_->allocate(600 * kKiB).value();
  const auto second = device_->allocate(500 * kKiB);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(second.error().message.find("TEST-GPU"), std::string::npos);
  EXPECT_EQ(device_->memory_info().held, 600 * kKiB);
  ASSERT_TRUE(device_->free(first));
  EXPECT_TRUE(device_->allocate(1000 * kKiB));
}

TEST_F(DeviceTest, RefusesMemoryBeyondTheProcesssLimit) {
  device_->limit_memory(300 * kKiB);
  EXPECT_EQ(device_->memory_info().total, 300 * kKiB);
  const DeviceAddress first = device_->allocate(200 * kKiB).value();
  EXPECT_EQ(device_->memory_info().free, 100 * kKiB);
  const auto second = device_->allocate(101 * kKiB);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kOutOfMemory);
  EXPECT_TRUE(second.error().message.contains("of the 0.3 MiB to which it is limited"))
      << second.error().message;
  EXPECT_TRUE(device_->allocate(100 * kKiB));
  EXPECT_EQ(device_->memory_info().free, 0);
  ASSERT_TRUE(device_->free(first));
  EXPECT_EQ(device_->memory_info().free, 200 * kKiB);
}

TEST_F(DeviceTest, SurvivesAbsurdSizes) {
  EXPECT_EQ(device_->allocate(~Bytes{0}).error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(device_->allocate(0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(device_->memory_info().held, 0U);
}

TEST_F(DeviceTest, RoundsAllocationsUpToTheGranularity) {
  const DeviceAddress a = device_->allocate(1).value();
  const DeviceAddress b = device_->allocate(1).value();
  EXPECT_EQ(b - a, Device::kAllocationGranularity);
  EXPECT_EQ(device_->memory_info().held, 2 * Device::kAllocationGranularity);
}

TEST_F(DeviceTest, FreesEachAllocationOnce) {
  const DeviceAddress address = device_->allocate(kKiB).value();
  EXPECT_EQ(device_->free(address + 1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(device_->free(address));
  EXPECT_EQ(device_->free(address).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(DeviceTest, GivesMemoryBackWhenTheContextEnds) {
  ASSERT_TRUE(device_->allocate(700 * kKiB));
  EXPECT_EQ(snapshot().processes.at(0).memory_held, 700 * kKiB);
  device_.reset();
  EXPECT_EQ(snapshot().memory_used, 0U);
  EXPECT_TRUE(snapshot().processes.empty());
}

TEST_F(DeviceTest, KeepsTheTimelineConsistentUnderConcurrentUse) {
  constexpr int kThreads = 4;
  constexpr int kLaunches = 5'000;
  const auto opened_again = Device::open(node_, 0, clock_).value();
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&device = i % 2 == 0 ? device_ : opened_again] {
      const auto stream = device->create_stream(StreamKind::kNonBlocking);
      TimePoint last{};
      for (int k = 0; k < kLaunches; ++k) {
        stream->launch(1us);
        if (k % 500 == 0) {
          const TimePoint end = stream->tail().time();
          EXPECT_GT(end, last);
          last = end;
        }
        const DeviceAddress address = device->allocate(kKiB).value();
        EXPECT_TRUE(device->free(address));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(snapshot().engines[0].idle_from, at(kThreads * kLaunches * 1us))
      << "no work was lost and none ran at the same time as another's";
  clock_.wait_until(at(kThreads * kLaunches * 1us));
  EXPECT_EQ(snapshot().processes.at(0).busy[0], kThreads * kLaunches * 1us);
  EXPECT_EQ(snapshot().memory_used, 0U);
}

TEST_F(DeviceTest, RefusesADeviceThatIsNotThere) {
  EXPECT_EQ(Device::open(node_, 1, clock_).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Device::open(node_, -1, clock_).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpemu::device
