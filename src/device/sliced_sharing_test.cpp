// SPDX-License-Identifier: Apache-2.0
#include "sliced_sharing.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/device/node.hpp"

namespace gpemu::device {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

/// Processes that share a device by time slices, on a virtual clock.
class SlicedSharingTest : public testing::Test {
 protected:
  SlicedSharingTest() {
    std::string name = std::filesystem::temp_directory_path() / "gpemu-slices-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    NodeConfig config{
        .name = "n", .devices = {{.gpu = "A", .memory_bytes = kMiB}}, .temporary = true};
    config.policy = SharingPolicy::kTimeSlices;
    config.slices = {.quantum = 2ms, .context_switch = 100us};
    nodes_.push_back(Node::create(config, folder_).value());
  }
  ~SlicedSharingTest() override {
    devices_.clear();
    nodes_.clear();
    std::filesystem::remove_all(folder_);
  }

  /// Adds a process and returns its default stream.
  Stream& begin() {
    if (!devices_.empty()) nodes_.push_back(Node::open("n", folder_).value());
    devices_.push_back(Device::open(nodes_.back(), 0, clock_).value());
    return devices_.back()->default_stream();
  }
  void wait_until(TimePoint deadline) {
    while (true) {
      TimePoint next = deadline;
      for (const auto& node : nodes_) next = std::min(next, node->settle(clock_.now()));
      if (next >= deadline) break;
      clock_.wait_until(next);
    }
    clock_.wait_until(deadline);
  }
  /// Lets time pass until the work of a stream has ended, and returns when that was.
  Duration end_of(Stream& stream) {
    const Moment end = stream.tail();
    while (!end.is_over(clock_.now())) wait_until(end.time());
    return end.time().time_since_epoch();
  }
  /// Returns how much of its work a device has done, by process and in all.
  [[nodiscard]] std::vector<Duration> busy() const {
    const DeviceSnapshot snapshot = nodes_[0]->device_snapshot(0, clock_.now());
    std::vector<Duration> done = {snapshot.engines[0].busy};
    for (const ProcessSnapshot& process : snapshot.processes) done.push_back(process.busy[0]);
    return done;
  }

  sim::VirtualClock clock_;
  std::filesystem::path folder_;
  std::vector<std::shared_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Device>> devices_;
};

TEST_F(SlicedSharingTest, AProcessAloneIsNotSliced) {
  Stream& stream = begin();
  for (int i = 0; i < 10; ++i) stream.launch(5ms);
  EXPECT_EQ(end_of(stream), 50ms);
}

TEST_F(SlicedSharingTest, TwoProcessesTakeTurns) {
  Stream& first = begin();
  Stream& second = begin();
  first.launch(5ms);
  second.launch(5ms);
  // Five slices, the last ones of a millisecond, and a switch before each but the first.
  EXPECT_EQ(end_of(first), 5 * 2ms - 1ms + 4 * 100us);
  EXPECT_EQ(end_of(second), 10ms + 5 * 100us);
}

TEST_F(SlicedSharingTest, ASettingHalvesTheSlices) {
  ASSERT_TRUE(nodes_[0]->set_time_slice(0, TimeSliceLength::kShort));
  Stream& first = begin();
  Stream& second = begin();
  first.launch(5ms);
  second.launch(5ms);
  // Ten slices of a millisecond, and a switch before each but the first.
  EXPECT_EQ(end_of(first), 9ms + 8 * 100us);
  EXPECT_EQ(end_of(second), 10ms + 9 * 100us);
  EXPECT_EQ(nodes_[0]->device_snapshot(0, clock_.now()).time_slice, TimeSliceLength::kShort);
}

TEST_F(SlicedSharingTest, ASettingAppliesToTheNextSlices) {
  Stream& first = begin();
  Stream& second = begin();
  first.launch(6ms);
  second.launch(6ms);
  wait_until(TimePoint(3ms));
  ASSERT_TRUE(nodes_[0]->set_time_slice(0, TimeSliceLength::kLong));
  // The slice of the second, from 2.1 to 4.1 ms, ends as it was; then slices take 8 ms.
  EXPECT_EQ(end_of(first), 4ms + 200us + 4ms);
  EXPECT_EQ(end_of(second), 8ms + 300us + 4ms);
}

TEST_F(SlicedSharingTest, ASecondProcessWaitsForTheSliceOfTheFirst) {
  Stream& first = begin();
  for (int i = 0; i < 10; ++i) first.launch(1ms);
  wait_until(at_ns(0) + 3500us);
  Stream& second = begin();
  second.launch(500us);
  // The first one's slice begins with the second process. The kernel that runs goes on alone.
  EXPECT_EQ(end_of(second), 3500us + 2ms + 100us + 500us);
}

TEST_F(SlicedSharingTest, WhenOthersEndTheLastOneIsAloneAgain) {
  Stream& first = begin();
  {
    Stream& second = begin();
    second.launch(1ms);
    first.launch(1ms);
    end_of(second);
    end_of(first);
    devices_.pop_back();
    nodes_.pop_back();
  }
  const TimePoint now = clock_.now();
  first.launch(7ms);
  EXPECT_EQ(end_of(first), now.time_since_epoch() + 7ms);
}

TEST_F(SlicedSharingTest, WorkOfAProcessThatEndsIsDropped) {
  Stream& first = begin();
  begin().launch(100ms);
  first.launch(10ms);
  wait_until(at_ns(0) + 3ms);
  devices_.pop_back();
  nodes_.pop_back();
  EXPECT_LE(end_of(first), 3ms + 2 * 100us + 10ms);
}

TEST_F(SlicedSharingTest, CopiesOverlapWithTheKernelsOfOthers) {
  Stream& first = begin();
  Stream& second = begin();
  for (int step = 0; step < 10; ++step) {
    for (Stream* const stream : {&first, &second}) {
      stream->copy(Engine::kCopyHostToDevice, 1, 2ms);
      for (int i = 0; i < 20; ++i) stream->launch(1ms);
    }
  }
  // The engine is idle for the first copy, and for a switch per slice.
  const Duration last = std::max(end_of(first), end_of(second));
  EXPECT_GE(last, 400ms + 2ms);
  EXPECT_LE(last, 400ms / 2ms * (2ms + 100us) + 2ms + 2ms);
}

TEST_F(SlicedSharingTest, WorkThatIsNotDoneIsNotCounted) {
  Stream& first = begin();
  Stream& second = begin();
  first.launch(10ms);
  second.launch(10ms);
  wait_until(at_ns(0) + 5ms);
  // Two milliseconds each, and what the first got of its second slice.
  EXPECT_EQ(busy(), (std::vector<Duration>{4800us, 2800us, 2ms}));
  wait_until(at_ns(0) + 50ms);
  EXPECT_EQ(busy(), (std::vector<Duration>{20ms, 10ms, 10ms}));
}

TEST_F(SlicedSharingTest, SaysThatThereIsNoRoom) {
  for (std::size_t i = 0; i < layout::kMostSharers; ++i) begin();
  nodes_.push_back(Node::open("n", folder_).value());
  const auto refused = Device::open(nodes_.back(), 0, clock_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceLimit);
  EXPECT_NE(refused.error().message.find("32 processes"), std::string::npos)
      << refused.error().message;
  devices_.pop_back();
  EXPECT_TRUE(Device::open(nodes_.back(), 0, clock_));
}

}  // namespace
}  // namespace gpemu::device
